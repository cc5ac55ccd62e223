from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from scheduler.core.types import Policy
from scheduler.policy import live_policy


def test_what_the_settings_leave_out_keeps_its_default(settings: Any) -> None:
    settings.GANGWAY_POLICY = {"grace_ms": 5_000, "length_weight": "1/4"}
    assert live_policy() == Policy(grace_ms=5_000, length_weight=Fraction(1, 4))


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        pytest.param({"grace": 5}, "no setting is called 'grace'", id="an unknown name"),
        pytest.param({"grace_ms": "5s"}, "grace_ms is '5s' and should be of type int", id="a wrong type"),
        pytest.param({"backfill": 1}, "backfill is 1 and should be of type bool", id="a number for a switch"),
        pytest.param({"grace_ms": True}, "grace_ms is True and should be of type int", id="a switch for a number"),
    ],
)
def test_a_setting_that_is_none_is_refused_by_name(settings: Any, chosen: dict[str, Any], said: str) -> None:
    settings.GANGWAY_POLICY = chosen
    with pytest.raises(ImproperlyConfigured, match=said):
        live_policy()


def test_the_policy_that_is_shipped_is_one(settings: Any) -> None:
    assert isinstance(live_policy(), Policy)
