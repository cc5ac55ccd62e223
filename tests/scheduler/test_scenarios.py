"""Every scenario of the shared collection, where it lies beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.sim.log_file import without_chatter
from scheduler.sim.run import run
from scheduler.sim.scenario import load

COLLECTION = Path(__file__).resolve().parents[3] / "shared" / "scenarios"
FILES = sorted(COLLECTION.glob("*/*.yaml"))


@pytest.mark.skipif(not FILES, reason="no scenarios lie beside the repository in ../shared/scenarios")
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_scenario(path: Path):
    with without_chatter():
        result = run(load(path))
    assert [(failure.expectation.written, failure.got) for failure in result.failed] == []
    assert result.invariants == ()
