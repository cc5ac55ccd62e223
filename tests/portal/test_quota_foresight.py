"""Previews of quota drafts that a worker goes on with: on real Redis, with the worker's part called as it calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import redis
from django.test import Client

from portal import quota_foresight, tasks
from portal.accounts.permissions import standing
from portal.quota_foresight import DONE, FAILED, REPLACED, RUNNING, WAITING, look
from quotas import selectors
from scheduler import connections
from scheduler.core.quota_preview import QuotaPreview
from scheduler.core.types import QuotaTree
from scheduler.models import Job
from scheduler.store import codec
from tests.portal.pages.conftest import ada, eve, fleet, make_job, oncall, picture, show, signed_in, store, tree
from tests.portal.pages.test_quotas import form, live
from tests.portal.people import make_user

__all__ = ["ada", "eve", "fleet", "live", "make_job", "oncall", "picture", "show", "store", "tree"]
pytestmark = pytest.mark.usefixtures("fleet", "live", "large")
Sent = list[str]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet on which the planner is not even begun in a web process."""
    monkeypatch.setattr(quota_foresight, "QUICK_JOBS", -1)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sent]:
    """The tickets of the tasks that were sent."""
    found: Sent = []

    def send(name: str, args: list[str], **_: Any) -> None:
        assert name == "portal.tasks.preview_quota"
        found.append(args[0])

    monkeypatch.setattr("portal.quota_foresight.current_app.send_task", send)
    yield found
    for key in connections.cache().scan_iter("gangway:quota-preview*"):
        connections.cache().delete(key)


@pytest.fixture
def root(tree: None) -> Client:
    return signed_in(make_user("root", "research", admin=True))


def ask(client: Client, **typed: str) -> str:
    return client.post("/quotas/preview/", form(1, **typed)).content.decode()


def follow(client: Client, ticket: str) -> Any:
    return client.get(f"/quotas/preview/{ticket}/", headers={"HX-Request": "true"})


def test_rights_are_told_at_once_and_the_rest_once_the_worker_is_done(
    root: Client, sent: Sent, make_job: Callable[..., Job]
) -> None:
    make_job(on={"h1": tuple(range(8))})
    page = ask(root, ceiling_H100="4")
    assert "vision would be over its ceiling" in page
    assert "Rights are told at once" in page
    (ticket,) = sent
    assert "Waiting for the planner" in follow(root, ticket).content.decode()
    tasks.preview_quota(ticket)
    answer = follow(root, ticket)
    assert answer["HX-Retarget"] == "#foreseen"
    assert "By the planner, up to" in answer.content.decode()
    again = ask(root, ceiling_H100="4")
    assert "By the planner, up to" in again
    assert sent == [ticket]


def test_the_same_draft_is_worked_at_once(root: Client, sent: Sent) -> None:
    for _ in range(3):
        ask(root, share="5")
    assert len(sent) == 1


def test_a_newer_draft_ends_the_older(root: Client, sent: Sent) -> None:
    ask(root, share="5")
    ask(root, share="6")
    for ticket in sent:
        tasks.preview_quota(ticket)
    older, newer = (follow(root, ticket).content.decode() for ticket in sent)
    assert "A newer draft of yours is being looked at" in older
    assert "By the planner" in newer


def test_nobody_else_follows_it(root: Client, ada: Client, eve: Client, sent: Sent) -> None:
    ask(root, share="5")
    tasks.preview_quota(sent[0])
    for other in (ada, eve):
        answer = follow(other, sent[0])
        assert "not kept any more" in answer.content.decode()
        assert "HX-Retarget" not in answer
    assert "not kept any more" in follow(root, "nonsense").content.decode()


def test_what_a_worker_says_no_more_is_lost(root: Client, sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(root, share="5")
    user = standing(_user("root"))
    seen = look(user, sent[0])
    assert seen is not None
    assert seen.state == WAITING
    reins = quota_foresight._Reins(sent[0], str(user.user_id))
    assert not reins(Fraction(1, 3))
    seen = look(user, sent[0])
    assert seen is not None
    assert (seen.state, seen.share) == (RUNNING, 0.333)
    monkeypatch.setitem(quota_foresight.SILENT_MS, RUNNING, -1)
    seen = look(user, sent[0])
    assert seen is not None
    assert seen.state == FAILED
    assert "worker went away" in follow(root, sent[0]).content.decode()


def test_what_was_found_comes_back_as_it_was_found(root: Client, sent: Sent, make_job: Callable[..., Job]) -> None:
    make_job(on={"h1": tuple(range(8))})
    make_job()
    ask(root, ceiling_H100="4")
    tasks.preview_quota(sent[0])
    drafted = _drafted(ceiling={"H100": 4})
    there = look(standing(_user("root")), sent[0])
    assert there is not None
    assert there.state == DONE
    assert there.found is not None
    here = quota_foresight._compare(quota_foresight._seen(), drafted, lambda done: False)
    assert (there.found.levels, there.found.over) == (here.levels, here.over)
    assert codec.decode(QuotaPreview, codec.encode(here)) == here


def test_without_redis_the_page_tells_what_the_moment_allows(
    root: Client, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> redis.Redis:
        raise redis.ConnectionError("gone")

    with monkeypatch.context() as patched:
        patched.setattr("portal.quota_foresight.connections.cache", away)
        page = ask(root, share="5")
    assert "The planner could not be run far enough: only rights are told." in page
    assert not sent


def test_replaced_work_stops_before_the_next_plan(root: Client, sent: Sent) -> None:
    ask(root, share="5")
    user = str(_user("root").pk)
    connections.cache().set(quota_foresight._latest(user), "another")
    reins = quota_foresight._Reins(sent[0], user)
    assert reins(Fraction(0))
    tasks.preview_quota(sent[0])
    seen = look(standing(_user("root")), sent[0])
    assert seen is not None
    assert seen.state == REPLACED


def _user(name: str) -> Any:
    from portal.accounts.models import User

    return User.objects.get(username=name)


def _drafted(**fields: Any) -> QuotaTree:
    present = selectors.tree()
    nodes = tuple(replace(node, **fields) if node.name == "vision" else node for node in present.nodes)
    return replace(present, nodes=nodes)
