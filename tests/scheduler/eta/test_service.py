"""Starts told by the live system: from history and picture to what is published, kept, scored and learned."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command

from quotas.models import QuotaNode
from scheduler import clock, connections
from scheduler.core.types import JobDecision, JobIntent, JobSpec, NodeIntent, Phase, Policy, Slice
from scheduler.eta import history, published, scoring, versions
from scheduler.eta.ladder import Ladder
from scheduler.eta.models import RunTimeModel, StartTold
from scheduler.eta.published import KEY, Etas, Likely
from scheduler.eta.refreshing import LOCK, Teller
from scheduler.eta.runtimes import RunTimes, train
from scheduler.models import Job, JobEvent
from scheduler.objects import Objects
from scheduler.picture import Picture
from scheduler.store import codec, keys
from scheduler.store.base import Put
from scheduler.store.memory import MemoryStore
from tests.portal.people import make_user
from tests.scheduler.builders import row_of_job

pytestmark = pytest.mark.django_db
NOW, HOUR = 1_767_225_600_000, 3_600_000


@pytest.fixture
def cache(redis_url: str, settings: Any) -> Iterator[redis.Redis]:
    settings.REDIS_URL = redis_url
    connections.close()
    published.PUBLISHED.forget()
    found = connections.cache()
    found.delete(KEY, LOCK)
    yield found
    found.delete(KEY, LOCK)
    connections.close()


@pytest.fixture
def objects(s3_url: str, settings: Any) -> Iterator[Objects]:
    settings.MODELS_BUCKET = "models-of-the-tests"
    found = Objects(s3_url)
    yield found
    found.close()


@pytest.fixture
def picture() -> Iterator[Picture]:
    """One host, held by ``runs`` for half an hour by now, with a limit of ten; ``waits`` wants it."""
    store = MemoryStore(lambda: NOW)
    since = NOW - HOUR // 2
    spec = JobSpec("runs", "vision", 8, "H100", 2, 10 * HOUR, since, owner="ada@example.com")
    held = JobDecision(Phase.RUNNING, 1, 1, (Slice("n1", tuple(range(8))),), "H100", bound_ms=since, started_ms=since)
    records: dict[str, Any] = {
        keys.intent_node("n1"): NodeIntent("n1", "az1", "r1", "H100"),
        keys.intent_job("runs"): JobIntent(spec),
        keys.decision_job("runs"): held,
        keys.intent_job("waits"): JobIntent(
            JobSpec("waits", "vision", 8, "H100", 2, HOUR, NOW, owner="ada@example.com")
        ),
        keys.intent_job("held"): JobIntent(JobSpec("held", "vision", 8, "H100", 2, HOUR, NOW), hold=True),
    }
    done = store.commit([], [*(Put(k, codec.encode(v)) for k, v in records.items()), Put(keys.alive("n1"), b"boot")])
    shown = Picture(lambda: store, lambda: NOW).start()
    assert shown.wait_for(done.revision, 10)
    yield shown
    shown.stop()


def people() -> tuple[QuotaNode, Any]:
    team, _ = QuotaNode.objects.get_or_create(name="vision")
    return team, make_user("ada")


def ended(count: int, hours: float = 1.0, *, team: QuotaNode, by: Any, before: datetime) -> None:
    """Jobs of ada's that ran for so long, one an hour up to ``before``."""
    for at in range(count):
        start = before - timedelta(hours=count - at + hours)
        spec = JobSpec(
            f"e{at:04}",
            "vision",
            8,
            "H100",
            2,
            10 * HOUR,
            clock.to_ms(start),
            owner="ada@example.com",
            name=f"run-{at}",
        )
        row = row_of_job(spec, team, by)
        row.state, row.attempt = Phase.SUCCEEDED.value, 1
        row.started_at, row.ended_at = start, start + timedelta(hours=hours * (0.8 + at % 5 / 10))
        row.save()


def told(job: str, at: datetime, p50_h: float, p90_h: float, **fields: Any) -> StartTold:
    given = {
        "team": "vision",
        "gpus": 8,
        "p50": at + timedelta(hours=p50_h),
        "p90": at + timedelta(hours=p90_h),
        "raw_s": p50_h * 3600,
        "basis": "model",
        **fields,
    }
    return StartTold.objects.create(job=job, at=at, **given)


def test_a_waiting_job_is_told_a_start_by_what_jobs_like_the_running_one_took(
    cache: redis.Redis, picture: Picture, objects: Objects
) -> None:
    team, by = people()
    ended(30, team=team, by=by, before=clock.to_datetime(NOW))
    made = Teller(lambda: objects).refresh(picture, Policy(), NOW, lambda: 0)
    assert made is not None
    one = made.jobs["waits"]
    assert NOW < one.p50_ms < NOW + HOUR, "not its limit, nine hours and a half away"
    assert (one.basis, one.why) == ("owner", "")
    assert published.etas(lambda: 0) == made
    assert set(made.jobs) == {"waits"}, "nobody knows when a held job will be released"
    (row,) = StartTold.objects.all()
    assert (row.job, row.team, row.gpus, row.basis) == ("waits", "vision", 8, "owner")


def test_what_does_not_move_is_kept_once(cache: redis.Redis, picture: Picture, objects: Objects) -> None:
    team, by = people()
    ended(30, team=team, by=by, before=clock.to_datetime(NOW))
    teller = Teller(lambda: objects)
    for at in range(3):
        teller.refresh(picture, Policy(), NOW + at * 10_000, lambda: 0)
    kept = StartTold.objects.count()
    assert kept < 3
    again = Teller(lambda: objects).refresh(picture, Policy(), NOW + 40_000, lambda: 0)
    assert again is not None and StartTold.objects.count() <= kept + 1, "another process goes on from what was told"


def test_without_a_basis_nothing_is_told(cache: redis.Redis, picture: Picture, objects: Objects) -> None:
    assert Teller(lambda: objects).refresh(picture, Policy(), NOW, lambda: 0) is None
    assert published.etas(lambda: 0) == Etas()


def test_one_worker_tells_at_a_time(cache: redis.Redis, picture: Picture, objects: Objects) -> None:
    cache.set(LOCK, "1")
    assert Teller(lambda: objects).refresh(picture, Policy(), NOW, lambda: 0) is None


def test_what_was_told_for_a_moment_that_has_come_is_told_for_now() -> None:
    found = Etas(NOW, {"a": Likely(NOW + 5, NOW + 50, "model")})
    assert found.of("a", NOW + 10) == Likely(NOW + 10, NOW + 50, "model")
    assert found.of("b", NOW) is None


def test_what_came_is_filled_in_and_what_never_will_is_let_go() -> None:
    team, by = people()
    now = clock.to_datetime(NOW)
    for name, state in (("came", Phase.RUNNING), ("gone", Phase.CANCELLED), ("waits", Phase.PENDING)):
        row = row_of_job(JobSpec(name, "vision", 8, "H100", 2, HOUR, NOW - 9 * HOUR, owner="ada@example.com"), team, by)
        row.state = state.value
        row.save()
        told(name, now - timedelta(hours=3), 1, 2)
    told("forgotten", now - scoring.KEPT - timedelta(days=1), 1, 2)
    bound = now - timedelta(hours=1)
    JobEvent.objects.create(entry="e", position=0, revision=1, kind="bind", at=bound, job_id="came", attempt=1)
    assert scoring.score(now) == 2
    assert scoring.score(now) == 0
    rows = {row.job: row for row in StartTold.objects.all()}
    assert set(rows) == {"came", "gone", "waits"}
    assert (rows["came"].came, rows["gone"].void, rows["waits"].came) == (bound, True, None)
    assert [(one.waited_s, one.over) for one in scoring.scored(now)] in (
        [(7200.0, True), (10_800.0, False)],
        [(10_800.0, False), (7200.0, True)],
    )


@pytest.mark.parametrize(
    ("by_p90", "off"), [(120, False), (100, True), (119, False), (60, True)], ids=["all", "too few", "most", "half"]
)
def test_coverage_is_counted_and_called_wrong_where_it_is(by_p90: int, off: bool) -> None:
    now = clock.to_datetime(NOW)
    count = 125 if by_p90 > 60 else 120
    rows = [
        told(f"j{at}", now - timedelta(hours=9), 1, 2, came=now - timedelta(hours=8 if at < by_p90 else 1))
        for at in range(count)
    ]
    found = scoring.calibrated(now)
    assert found.whole is not None and found.whole.told == len(rows)
    assert found.whole.by_p90 == pytest.approx(by_p90 / count)
    assert found.off is (off if by_p90 != 100 else not 0.8 <= by_p90 / count <= 0.97)
    assert [one.name for one in found.teams] == ["vision"] and [one.name for one in found.sizes] == ["2-8"]


def test_a_version_is_promoted_only_if_it_is_better(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "train", partial(train, rounds=5))
    team, by = people()
    now = clock.to_datetime(NOW)
    assert versions.train_version(objects, now) is None, "there is nothing to learn from"
    ended(330, team=team, by=by, before=now)
    monkeypatch.setattr(versions, "loss", lambda teller, old, new: 0.1 if isinstance(teller, RunTimes) else 0.2)
    first = versions.train_version(objects, now)
    assert first is not None and first.promoted
    assert isinstance(versions.in_service(objects), RunTimes)
    second = versions.train_version(objects, now + timedelta(seconds=1))
    assert second is not None and not second.promoted, "it is as good as the one in service, no better"
    assert versions.newest() == first


def test_a_model_that_is_lost_leaves_the_likes_to_tell(objects: Objects) -> None:
    RunTimeModel.objects.create(
        trained_at=clock.to_datetime(NOW), key="no/such", jobs=1, loss=0.1, loss_before=0.2, promoted=True
    )
    objects.make_bucket("models-of-the-tests")
    teller, name = versions.teller(objects, [])
    assert isinstance(teller, Ladder) and name == "likes"


def test_history_is_read_as_it_was() -> None:
    team, by = people()
    ended(3, team=team, by=by, before=clock.to_datetime(NOW))
    known = history.ran(clock.to_datetime(NOW))
    assert [one.wanted.job for one in known] == ["e0000", "e0001", "e0002"]
    assert [one.length_s for one in known] == pytest.approx([2880.0, 3240.0, 3600.0])
    assert {(one.wanted.family, one.wanted.owner, one.wanted.team) for one in known} == {
        ("run-#", "ada@example.com", "vision")
    }
    assert Job.objects.count() == 3


def test_the_trace_command_needs_a_trace(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("eta", "backtest", str(tmp_path / "none.csv"))
