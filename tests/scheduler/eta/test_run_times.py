"""Run times: what likes tell, the ladder without a model, the model, and what is left of a job that runs."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.core.types import JobSpec
from scheduler.eta.ladder import ENOUGH, Ladder
from scheduler.eta.past import Past, Ran, family, told_at_submission, wanted_of
from scheduler.eta.quantiles import LEVELS, Length
from scheduler.eta.runtimes import TooFew, conformal, drawn_to_the_end, loaded, pinball, train
from tests.scheduler.eta.builders import HOUR, ran, two_people, wanted


@pytest.mark.parametrize(
    ("one", "other"),
    [("resnet-17", "resnet-18"), ("Run_3f9ac0de11", "run_77aa01bc99"), ("sweep/4/lr", "sweep/12/lr")],
)
def test_names_of_one_family_differ_in_numbers_and_hashes(one: str, other: str) -> None:
    assert family(one) == family(other)


def test_names_of_two_families_differ() -> None:
    assert family("train-7") != family("eval-7")


def test_a_job_without_an_owner_counts_as_its_teams() -> None:
    assert wanted_of(JobSpec("a", "vision", 8, "H100", 2, 3_600_000, 0)).owner == "vision"


def test_nobody_is_told_what_ended_after_the_job_was_submitted() -> None:
    """The past of each job, at the moment at which it is handed out, holds what had ended by then."""
    jobs = [ran(100.0, f"j{at}", submitted_s=at * 60.0) for at in range(6)]
    counts = [round(float(np.expm1(list(past.told(one.wanted))[3]))) for one, past in told_at_submission(jobs)]
    assert counts == [0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("known", "basis", "median_s"),
    [
        pytest.param([], "limit", 24 * HOUR, id="nothing is known: its limit"),
        pytest.param([ran(60.0, owner="x", team="y")] * ENOUGH, "size", 60.0, id="only jobs of its size"),
        pytest.param([ran(70.0, owner="x")] * ENOUGH, "team", 70.0, id="its team's of its size"),
        pytest.param(
            [ran(80.0)] * ENOUGH + [ran(9.0, owner="x")] * 50, "owner", 80.0, id="its owner's before its team's"
        ),
        pytest.param([ran(80.0)] * (ENOUGH - 1), "limit", 24 * HOUR, id="too few are none"),
        pytest.param([ran(80.0, ended=False)] * ENOUGH, "limit", 24 * HOUR, id="what runs still is not counted"),
    ],
)
def test_without_a_model_the_nearest_likes_tell(known: list[Ran], basis: str, median_s: float) -> None:
    ladder = Ladder(known)
    (length,) = ladder.lengths([wanted()], Past())
    assert ladder.basis(wanted()) == basis
    assert length.at(0.5) == pytest.approx(median_s)


def test_a_length_is_never_above_the_limit() -> None:
    length = Length([60, 120, 600, 7200, 90_000], 3600)
    assert [length.at(level) for level in (0.0, 0.9, 1.0)] == pytest.approx([0, 3600, 3600])


def test_what_is_left_is_told_knowing_how_long_it_has_run() -> None:
    length = Length([60, 120, 600, 7200, 36_000], 24 * HOUR)
    assert length.share_over_by(600) == pytest.approx(0.5)
    assert length.given(0, 0.5) == pytest.approx(600)
    assert length.given(600, 0.5) == pytest.approx(7200)
    assert length.given(7200, 0.6) == pytest.approx(36_000)
    assert length.given(30 * HOUR, 0.5) == 30 * HOUR, "it is past its limit and goes on"


def test_more_is_never_over_by_less() -> None:
    length = Length([60, 60, 600, 600, 600], 3600)
    shares = [length.share_over_by(at) for at in (0, 59, 60, 61, 599, 600, 601, 3600)]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1


def test_the_model_tells_people_apart_and_comes_back_as_it_was_written() -> None:
    jobs = two_people(500)
    model = train(jobs, rounds=20)
    past = Past()
    for one in jobs:
        past.add(one)
    asked = [wanted(owner="ada", submitted_s=500 * 900.0), wanted(owner="bob", submitted_s=500 * 900.0)]
    short, long = model.lengths(asked, past)
    assert 400 < short.at(0.5) < 1200 and 24_000 < long.at(0.5) < 55_000
    again = loaded(model.dumped())
    assert [length.at(0.9) for length in again.lengths(asked, past)] == pytest.approx([short.at(0.9), long.at(0.9)])


def test_nothing_is_learned_from_a_handful() -> None:
    with pytest.raises(TooFew):
        train(two_people(50))


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b'{"levels": [0.5]}'])
def test_what_is_no_model_is_not_taken_for_one(raw: bytes) -> None:
    with pytest.raises(ValueError):
        loaded(raw)


def test_a_quantile_is_moved_until_as_many_lie_below_it() -> None:
    misses = np.arange(-10.0, 89.0)
    for level in LEVELS:
        by = conformal(misses, level)
        assert (misses <= by).mean() == pytest.approx(level, abs=0.02)


def test_what_runs_still_is_drawn_from_those_that_ran_longer() -> None:
    jobs = [ran(60.0 * n, f"j{n}") for n in range(1, 21)] + [ran(600.0, "runs", ended=False)]
    assert drawn_to_the_end(jobs)[-1] > 600
    alone = [ran(600.0, "runs", ended=False, limit_s=900.0)]
    assert drawn_to_the_end(alone) == [900.0], "twice as long again, within its limit"


def test_the_loss_is_least_for_the_true_quantile() -> None:
    actual = [float(n) for n in range(100)]
    losses = {told: pinball(actual, [told] * 100, 0.9) for told in (50.0, 89.5, 99.0)}
    assert min(losses, key=losses.__getitem__) == 89.5
