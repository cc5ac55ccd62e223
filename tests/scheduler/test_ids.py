from __future__ import annotations

import random

import pytest

from scheduler.ids import Ulids, ulid


def test_a_ulid_reads_back_as_its_moment_and_its_bits() -> None:
    # The example of the ULID specification: 01ARYZ6S41 is 1469918176385 ms.
    assert ulid(1469918176385, 0) == "01ARYZ6S41" + "0" * 16
    assert ulid(0, (1 << 80) - 1) == "0" * 10 + "Z" * 16


@pytest.mark.parametrize(
    ("at_ms", "bits"),
    [
        pytest.param(-1, 0, id="before the epoch"),
        pytest.param(1 << 48, 0, id="after the year 10889"),
        pytest.param(0, 1 << 80, id="too many random bits"),
        pytest.param(0, -1, id="negative randomness"),
    ],
)
def test_what_does_not_fit_is_refused(at_ms: int, bits: int) -> None:
    with pytest.raises(ValueError, match=r"ULID|outside"):
        ulid(at_ms, bits)


def test_ids_rise_within_a_millisecond_and_through_a_clock_set_back() -> None:
    moments = iter([1000] * 500 + [400] * 500 + [1001] * 500)
    make = Ulids(lambda: next(moments), random.Random(7).getrandbits)
    made = [make() for _ in range(1500)]
    assert made == sorted(set(made))


def test_the_same_clock_and_seed_make_the_same_ids() -> None:
    one, other = (Ulids(lambda: 5, random.Random(3).getrandbits) for _ in range(2))
    assert [one() for _ in range(9)] == [other() for _ in range(9)]
