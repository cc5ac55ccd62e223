"""A bucket of its own for each test, and the examples on the path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="session")
def helper() -> Iterator[ModuleType]:
    """``gangway_checkpoint``, as a script beside it would import it."""
    sys.path.insert(0, str(EXAMPLES))
    import gangway_checkpoint

    yield gangway_checkpoint
    sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="session")
def s3(helper: ModuleType, s3_url: str) -> Any:
    return helper.client({"GANGWAY_S3_URL": s3_url})


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"models-{uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)
    return name
