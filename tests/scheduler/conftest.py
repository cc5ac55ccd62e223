"""A real S3 server behind a proxy that misbehaves on order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler.objects import Objects
from tests.objects import Faults, behind_faults


@pytest.fixture(scope="module")
def proxy(s3_url: str) -> Iterator[Faults]:
    with behind_faults(s3_url) as running:
        yield running


@pytest.fixture(scope="module")
def objects(proxy: Faults) -> Iterator[Objects]:
    found = Objects(proxy.url)
    yield found
    found.close()


@pytest.fixture
def faults(proxy: Faults) -> Iterator[Faults]:
    yield proxy
    proxy.heal()
