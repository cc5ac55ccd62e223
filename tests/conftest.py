"""Fixtures of the whole suite: real stores, started on first use (see tests/stores.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import stores


@pytest.fixture(scope="session", autouse=True)
def stop_stores() -> Iterator[None]:
    """Whatever was started ends with the session, an interrupted one too."""
    yield
    stores.stop_all()


@pytest.fixture(scope="session")
def postgres_url() -> str:
    return stores.url("POSTGRES")


@pytest.fixture(scope="session")
def etcd_url() -> str:
    return stores.url("ETCD")


@pytest.fixture(scope="session")
def redis_url() -> str:
    return stores.url("REDIS")


@pytest.fixture(scope="session")
def s3_url() -> str:
    return stores.url("S3")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_url: str, redis_url: str) -> None:
    """pytest-django asks for this before it makes its database: what writes rows also pokes and caches."""
