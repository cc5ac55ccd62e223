from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nodes.agent.host import Host


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host of whose ranks nothing is left when the test ends."""
    made = Host(tmp_path)
    try:
        yield made
    finally:
        made.close()
