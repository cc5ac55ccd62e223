from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from portal.accounts.models import User
from scheduler import policy, policy_history
from scheduler.core.types import Policy, PolicyIntent
from scheduler.loader import Loader
from scheduler.models import Outbox
from scheduler.outbox import sweep
from scheduler.policy import NoPolicy, live_policy, policy_of
from scheduler.store.memory import MemoryStore


@pytest.fixture(autouse=True)
def nothing_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "_heard", None)


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


def test_what_people_changed_comes_before_the_deployments(settings: Any) -> None:
    settings.GANGWAY_POLICY = {"grace_ms": 5_000, "repair": True}
    changed = PolicyIntent({"grace_ms": 9_000, "length_weight": "1/3"})
    assert policy_of(changed) == Policy(grace_ms=9_000, repair="auto", length_weight=Fraction(1, 3))


def test_a_changed_setting_that_is_unknown_here_leaves_the_others_in_force(settings: Any) -> None:
    settings.GANGWAY_POLICY = {}
    assert policy_of(PolicyIntent({"from_the_future": 1, "grace_ms": -1, "backfill": False})) == Policy(backfill=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("half_life_ms", 0),
        ("grace_ms", -1),
        ("grace_ms", 10**15),
        ("length_weight", "2"),
        ("length_weight", "1/0"),
        ("length_weight", 0.5),
        ("order", "random"),
        ("shares", 1),
        ("nothing", 1),
    ],
)
def test_values_that_no_policy_has_are_refused(db: None, name: str, value: Any) -> None:
    by = User.objects.create_user("admin", "admin@example.com")
    with pytest.raises(NoPolicy) as refused:
        policy_history.change({name: value}, by, "because", 0, 0)
    assert refused.value.name == name
    assert not Outbox.objects.exists()


def test_a_change_is_kept_and_reaches_whoever_follows_the_store(db: None, settings: Any) -> None:
    settings.GANGWAY_POLICY = {}
    store = MemoryStore(lambda: 0)
    loader = Loader(store)
    loader.load()
    assert loader.policy is None
    by = User.objects.create_user("admin", "admin@example.com")
    policy_history.change({"grace_ms": 1_000}, by, "shorter", 1_000, 0)
    policy_history.change({"grace_ms": 2_000, "length_weight": "1/8"}, by, "longer", 2_000, 1)
    sweep(store)
    loader.catch_up()
    assert policy_of(loader.policy) == Policy(grace_ms=2_000, length_weight=Fraction(1, 8))
    newest = policy_history.current()
    assert newest is not None
    assert (newest.version, newest.reason, newest.by) == (2, "longer", by)


def test_a_change_made_from_an_old_revision_is_refused(db: None) -> None:
    by = User.objects.create_user("admin", "admin@example.com")
    policy_history.change({"grace_ms": 1_000}, by, "first", 0, 0)
    with pytest.raises(policy_history.Overtaken):
        policy_history.change({"grace_ms": 2_000}, by, "from before", 0, 0)
