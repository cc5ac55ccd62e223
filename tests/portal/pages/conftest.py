"""Pages as people see them, on a picture of an in-memory store (fixtures of the REST interface's tests)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from portal.accounts.models import User
from quotas.models import QuotaNode
from scheduler import clock
from scheduler.connections import ids
from scheduler.core.types import CheckpointSpec, JobDecision, JobIntent, JobSpec, Phase, Slice
from scheduler.models import Job
from scheduler.store import keys
from tests.portal.api.conftest import fleet, picture, show, store, tree
from tests.portal.people import make_user
from tests.scheduler.builders import row_of_job

__all__ = ["fleet", "picture", "show", "store", "tree"]


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def ada(tree: None) -> Client:
    """A member of vision."""
    return signed_in(make_user("ada", "vision"))


@pytest.fixture
def bob(tree: None) -> Client:
    """Her teammate."""
    return signed_in(make_user("bob", "vision"))


@pytest.fixture
def eve(tree: None) -> Client:
    """An outsider: a member of speech alone."""
    return signed_in(make_user("eve", "speech"))


@pytest.fixture
def oncall(tree: None) -> Client:
    return signed_in(make_user("otto", is_oncall=True))


@pytest.fixture
def make_job(tree: None, show: Callable[..., None]) -> Callable[..., Job]:
    """A job of vision's in PostgreSQL and in the live state; ``on`` places it: node → GPU indices."""

    def make(
        owner: str = "ada", *, on: dict[str, tuple[int, ...]] | None = None, live: bool = True, **fields: Any
    ) -> Job:
        user = User.objects.filter(username=owner).first() or make_user(owner, "vision")
        now_ms = clock.now_ms()
        spec = JobSpec(
            id=ids(),
            team="vision",
            gpus=sum(len(gpus) for gpus in on.values()) if on else 8,
            gpu_type="H100",
            priority=2,
            max_runtime_ms=3_600_000,
            submitted_ms=now_ms - 60_000,
            checkpoint=CheckpointSpec(60_000, 1_000, "s3://bucket/run/"),
            name=fields.pop("name", "train"),
            owner=user.email,
        )
        phase = Phase(fields.pop("state", Phase.RUNNING if on else Phase.PENDING))
        row = row_of_job(spec, QuotaNode.objects.get(name="vision"), user, state=phase.value, **fields)
        if live:
            slices = tuple(Slice(node, gpus) for node, gpus in (on or {}).items())
            decision = JobDecision(
                phase=phase,
                attempt=1 if on else 0,
                allocation=slices,
                gpu_type="H100",
                bound_ms=now_ms - 30_000 if on else None,
                started_ms=now_ms - 20_000 if on else None,
            )
            show({keys.intent_job(spec.id): JobIntent(spec), keys.decision_job(spec.id): decision})
        return row

    return make
