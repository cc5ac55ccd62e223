"""What rolls tell is set right by what came of earlier ones."""

from __future__ import annotations

import pytest

from scheduler.eta.calibration import Calibration, Scored, Told, survival_quantile

HOUR = 3600.0


def scored(count: int, factor: float, hours: int = 20, over: bool = True, gpus: int = 8) -> list[Scored]:
    return [Scored(Told(at % hours * HOUR, 2 * HOUR, gpus), 2 * HOUR * factor, over) for at in range(count)]


def test_without_any_score_rolls_are_told_as_they_are() -> None:
    told = Calibration(()).correct(Told(0, 100.0, 8), spread=3.0)
    assert (told.p50_s, told.p90_s, told.scored) == (100.0, 300.0, 0)


def test_of_waits_that_were_four_times_as_long_half_is_believed_for_p50_and_all_for_p90() -> None:
    told = Calibration(scored(60, 4.0)).correct(Told(0, 2 * HOUR, 8))
    assert told.p50_s == pytest.approx(4 * HOUR, rel=0.02)
    assert told.p90_s == pytest.approx(8 * HOUR, rel=0.02)


def test_p90_is_not_before_what_the_rolls_told() -> None:
    told = Calibration(scored(60, 0.25)).correct(Told(0, 2 * HOUR, 8))
    assert told.p50_s == pytest.approx(HOUR, rel=0.02) and told.p90_s == 2 * HOUR


def test_p90_covers_nine_in_ten() -> None:
    known = scored(85, 1.0) + scored(15, 5.0)
    told = Calibration(known).correct(Told(0, 2 * HOUR, 8))
    assert told.p50_s == pytest.approx(2 * HOUR, rel=0.01) and told.p90_s == pytest.approx(10 * HOUR, rel=0.01)


def test_those_of_one_hour_share_their_luck_and_set_nothing_right() -> None:
    assert Calibration(scored(200, 9.0, hours=1)).correct(Told(0, 2 * HOUR, 8)).scored == 0


def test_gangs_are_set_right_by_gangs() -> None:
    known = scored(60, 1.0, gpus=1) + scored(60, 9.0, gpus=64)
    by = Calibration(known)
    assert by.correct(Told(0, 2 * HOUR, 64)).p50_s == pytest.approx(6 * HOUR, rel=0.02)
    assert by.correct(Told(0, 2 * HOUR, 1)).p50_s == pytest.approx(2 * HOUR, rel=0.01)


@pytest.mark.parametrize(
    ("values", "level", "expected"),
    [
        pytest.param([(n, True) for n in range(1, 11)], 0.5, 5, id="all known: the plain quantile"),
        pytest.param([(n, True) for n in range(1, 11)], 0.9, 9, id="nine in ten"),
        pytest.param([(1, True), (1, False), (1, False), (9, True)], 0.5, 9, id="who waits still waits longer"),
        pytest.param([(1, True), (2, False), (3, False)], 0.9, 3, id="too few are known: the largest told"),
    ],
)
def test_those_that_wait_still_are_counted_as_waiting(
    values: list[tuple[float, bool]], level: float, expected: float
) -> None:
    assert survival_quantile(values, level) == expected
