"""Whatever comes over a cluster: nothing breaks, nobody is stopped in vain, and it ends in calm."""

from __future__ import annotations

import pytest

from tests.scheduler.sim.storms import play

SEEDS = range(100, 140)
WILD = [2, 12, 30, 44, 53, 66, 68, 86, 89, 90, 93, 99, 124, 146, 172, 178, 185, 187, 263, 290, 403]
"""Storms in which jobs that had been stopped were back before those for whom they were, or nothing came to rest."""


@pytest.mark.parametrize("seed", [*WILD, *SEEDS])
def test_a_storm_breaks_nothing(seed: int) -> None:
    assert play(seed).wrong == []


@pytest.mark.parametrize("seed", [44, 187])
def test_the_same_storm_goes_the_same_way(seed: int) -> None:
    assert play(seed).lines == play(seed).lines
