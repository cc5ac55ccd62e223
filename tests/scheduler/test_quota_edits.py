"""Edits of the quota tree reach the scheduler whole, at their time, and through crashes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from portal.accounts.models import User
from quotas import edits, selectors
from quotas.models import QuotaRevision, ScheduledEdit
from scheduler import outbox, quota_edits, tasks
from scheduler.core.types import QuotaNode, QuotaTree
from scheduler.loader import Loader
from scheduler.models import Outbox
from scheduler.store import codec, keys
from scheduler.store.base import StoreUnavailable
from scheduler.store.memory import MemoryStore

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2026, 4, 19, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TREE = QuotaTree((QuotaNode("research", share=Fraction(40)), QuotaNode("vision", "research", ceiling={"H100": 32})))


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = MemoryStore(lambda: 0)
    monkeypatch.setattr("scheduler.connections.store", lambda: store)
    monkeypatch.setattr("scheduler.wakeups.tick.ring", lambda: True)
    return store


@pytest.fixture(autouse=True)
def person(store: MemoryStore) -> Iterator[User]:
    user = User.objects.create_user("grace", "grace@example.com")
    quota_edits.put(TREE, now=NOW - HOUR, by_id=user.pk, reason="first", based_on=0, gpu_types=None)
    yield user


def known(store: MemoryStore) -> QuotaTree:
    entry = store.get(keys.INTENT_QUOTA)
    assert entry is not None
    return codec.decode(QuotaTree, entry.value)


def raised(**fields: Any) -> dict[str, Any]:
    """An edit of vision's ceiling to 64, based on what is in force."""
    tree = selectors.tree()
    nodes = tuple(replace(node, ceiling={"H100": 64}) if node.name == "vision" else node for node in tree.nodes)
    by = User.objects.get().pk
    more = {"now": NOW, "by_id": by, "reason": "deadline", "based_on": tree.version, "gpu_types": None}
    return {"tree": replace(tree, nodes=nodes), **more, **fields}


def ceiling(store: MemoryStore) -> int | None:
    return next(node.ceiling.get("H100") for node in known(store).nodes if node.name == "vision")


def test_an_applied_tree_reaches_the_planner(store: MemoryStore) -> None:
    applied = quota_edits.put(**raised())
    assert known(store) == applied == replace(selectors.tree(), version=2)
    loader = Loader(store)
    loader.load()
    assert loader.snapshot.quota.tree == applied
    assert loader.snapshot.quota.by_name["vision"].node.ceiling == {"H100": 64}


def test_an_edit_that_changes_nothing_publishes_nothing(store: MemoryStore) -> None:
    before = store.read(keys.PREFIX).revision
    assert quota_edits.put(**raised(tree=selectors.tree())).version == 1
    assert store.read(keys.PREFIX).revision == before


def test_an_override_reaches_the_planner_and_goes_back(store: MemoryStore) -> None:
    edit = quota_edits.put_for(**raised(starts_at=None, ends_at=NOW + HOUR))
    assert (edit.state, ceiling(store)) == ("in_force", 64)
    assert quota_edits.carry_out_due(NOW + HOUR) == 1
    assert (ceiling(store), known(store).version) == (32, 3)
    assert quota_edits.carry_out_due(NOW + 2 * HOUR) == 0


def test_a_later_edit_waits_for_its_time(store: MemoryStore) -> None:
    quota_edits.put_for(**raised(starts_at=NOW + HOUR, ends_at=None))
    assert quota_edits.carry_out_due(NOW) == 0
    assert ceiling(store) == 32
    quota_edits.carry_out_due(NOW + HOUR)
    assert ceiling(store) == 64


def test_calling_it_off_goes_back_at_once(store: MemoryStore) -> None:
    edit = quota_edits.put_for(**raised(starts_at=None, ends_at=NOW + HOUR))
    quota_edits.cancel(edit.pk, NOW)
    assert ceiling(store) == 32
    with pytest.raises(edits.EditIsOver):
        quota_edits.cancel(edit.pk, NOW)


def test_while_the_store_is_away_the_edit_happens_and_follows_later(store: MemoryStore) -> None:
    store.fail()
    edit = quota_edits.put_for(**raised(starts_at=None, ends_at=NOW + HOUR))
    assert edit.state == "in_force"
    store.recover()
    outbox.sweep(store)
    assert ceiling(store) == 64


STEPS = {
    "before the tree is written": ("quotas.services._write", RuntimeError),
    "before its revision is kept": ("quotas.services.to_rows", RuntimeError),
    "before it is published": ("scheduler.quota_edits.publish_quota", RuntimeError),
    "before the edit is closed": ("quotas.edits._close", RuntimeError),
    "before it is delivered": ("scheduler.outbox.deliver", StoreUnavailable),
}


@pytest.mark.parametrize("end", [False, True], ids=["at its beginning", "at its end"])
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_leaves_all_or_nothing(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, step: str, end: bool
) -> None:
    edit = quota_edits.put_for(**raised(starts_at=NOW + HOUR, ends_at=NOW + 2 * HOUR))
    due = NOW + HOUR
    if end:
        quota_edits.carry_out_due(due)
        due = NOW + 2 * HOUR
    where, error = STEPS[step]

    def crash(*_: object, **__: object) -> None:
        raise error("killed")

    with monkeypatch.context() as patched:
        patched.setattr(where, crash)
        if error is RuntimeError:
            with pytest.raises(RuntimeError):
                quota_edits.carry_out_due(due)
        else:
            quota_edits.carry_out_due(due)
    quota_edits.carry_out_due(due)
    outbox.sweep(store)
    edit.refresh_from_db()
    assert edit.state == ("reverted" if end else "in_force")
    assert ceiling(store) == (32 if end else 64)
    assert list(QuotaRevision.objects.values_list("version", flat=True)) == ([1, 2, 3] if end else [1, 2])
    assert not Outbox.objects.exists()


def test_the_task_carries_out_what_is_due(store: MemoryStore) -> None:
    """By the wall clock, which is later than all of these times."""
    edit = ScheduledEdit.objects.create(
        changes=[{"node": "vision", "field": "ceiling.H100", "before": 32, "after": 8}],
        starts_at=NOW,
        made_at=NOW,
        reason="shrink",
    )
    for _ in range(3):
        tasks.carry_out_quota_edits()
    edit.refresh_from_db()
    assert (edit.state, ceiling(store), selectors.version()) == ("applied", 8, 2)


def test_the_schedule_runs_the_task() -> None:
    from portal.celery import app

    entry = app.conf.beat_schedule["carry out quota edits"]
    assert entry["task"] == tasks.carry_out_quota_edits.name
