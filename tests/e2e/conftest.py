"""A running system to which tests bring real agents of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents import joining, storage
from tests.e2e.hosts import Hosts
from tests.e2e.training import BUCKET
from tests.system import System


@pytest.fixture(scope="package")
def bare_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A control plane without hosts and without a workload, for all tests that bring real agents of their own."""
    chosen = {"GANGWAY_FLEET": "off", "GANGWAY_WORKLOAD": "off"}
    running = System(tmp_path_factory.mktemp("bare") / "data", chosen)
    try:
        running.start()
        yield running
    finally:
        running.kill()


@pytest.fixture(scope="package")
def join_token(bare_system: System) -> str:
    return joining(bare_system, 1_000)


@pytest.fixture(scope="package")
def objects(bare_system: System) -> Any:
    """The storage of the system without hosts, with the bucket in which trainings save."""
    return storage(bare_system, BUCKET)


@pytest.fixture
def hosts(bare_system: System, join_token: str, tmp_path: Path) -> Iterator[Hosts]:
    """Brings hosts into the system that has none, and takes them away after the test."""
    brought = Hosts(bare_system, tmp_path / "hosts", join_token)
    try:
        yield brought
    finally:
        brought.close()
