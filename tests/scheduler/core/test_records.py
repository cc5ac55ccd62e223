"""Copies of records."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from scheduler.core import types
from scheduler.core.records import replaced
from scheduler.core.types import JobDecision, Phase


def test_a_copy_is_what_dataclasses_would_make() -> None:
    before = JobDecision(attempt=3, stopped_ms=(1, 2), reason=types.Reason.FRAGMENTED)
    after = replaced(before, phase=Phase.RUNNING, attempt=4)
    assert after == replace(before, phase=Phase.RUNNING, attempt=4)
    assert (before.phase, before.attempt) == (Phase.PENDING, 3)


def test_each_field_can_be_changed() -> None:
    marker = object()
    for field in fields(JobDecision):
        assert getattr(replaced(JobDecision(), **{field.name: marker}), field.name) is marker


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="no field attempts"):
        replaced(JobDecision(), attempts=1)
