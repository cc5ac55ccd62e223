from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest
from django.db import connection

from portal.accounts.models import User
from quotas.models import QuotaNode
from scheduler import outbox, services
from scheduler.core.types import Hint, JobIntent, Launch, NodeIntent, OnLoss, Phase, QuotaTree
from scheduler.ids import Ulids
from scheduler.models import Job, Outbox
from scheduler.picture import Picture
from scheduler.requests import JobRequest
from scheduler.store import codec, keys
from scheduler.store.base import Put
from scheduler.store.memory import MemoryStore
from tests.scheduler.failing import FusedStore, every_cut, fused_database, killed

pytestmark = pytest.mark.django_db(transaction=True)

NOW = 1_767_225_600_000
REQUEST = JobRequest(
    name="run",
    team="vision",
    owner="ada@example.com",
    priority=2,
    gpus=8,
    gpu_type="H100",
    hint=Hint.ANY,
    max_runtime_ms=3_600_000,
    cpu_per_rank=0,
    memory_per_rank_gb=0,
    scratch_gb=0,
    checkpoint=None,
    on_preemption=OnLoss.RESTART,
    on_node_failure=OnLoss.RESTART,
    max_restarts=3,
    launch=Launch("image", ("true",)),
    body={"name": "run"},
)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = MemoryStore(lambda: 0)
    use(monkeypatch, store)
    return store


def use(monkeypatch: pytest.MonkeyPatch, store: Any) -> None:
    monkeypatch.setattr("scheduler.connections.store", lambda: store)


@pytest.fixture
def team() -> QuotaNode:
    return QuotaNode.objects.create(name="vision")


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", "ada@example.com")


class Submitter:
    """Submits as ada, with ids from a seed."""

    def __init__(self, user: User, team: QuotaNode) -> None:
        self.user, self.team = user, team
        self.picture: Picture | None = None
        self.ids = Ulids(lambda: NOW, random.Random(5).getrandbits)

    def __call__(self, request: JobRequest = REQUEST, key: str | None = None) -> services.Submitted:
        return services.submit(
            self.user, self.team, request, idempotency_key=key, now_ms=NOW, ids=self.ids, picture=self.picture
        )


@pytest.fixture
def submit(ada: User, team: QuotaNode) -> Submitter:
    return Submitter(ada, team)


def intent(store: MemoryStore, job: Job) -> JobIntent | None:
    entry = store.get(keys.intent_job(job.pk))
    return codec.decode(JobIntent, entry.value) if entry else None


def test_an_accepted_job_is_in_both_databases(store: MemoryStore, submit: Submitter) -> None:
    job = submit().job
    kept = Job.objects.get()
    assert (kept.pk, kept.state, kept.spec, kept.submitted_by) == (job.pk, "PENDING", {"name": "run"}, submit.user)
    assert intent(store, job) == JobIntent(REQUEST.to_spec(job.pk, NOW))
    assert services.intent_of(kept) == intent(store, job)
    assert not Outbox.objects.exists()


def test_a_job_is_accepted_while_the_store_is_away(store: MemoryStore, submit: Submitter) -> None:
    store.fail()
    job = submit().job
    store.recover()
    assert outbox.sweep(store) == 1
    assert intent(store, job) is not None


def test_the_same_key_and_body_are_the_same_job(store: MemoryStore, submit: Submitter) -> None:
    first = submit(key="k")
    again = submit(replace(REQUEST, body={"name": "run", "priority": "P2"}), key="k")
    assert (first.created, again.created) == (True, False)
    assert first.job == again.job
    assert Job.objects.count() == 1


def test_the_same_key_with_another_body_is_refused(store: MemoryStore, submit: Submitter) -> None:
    first = submit(key="k")
    with pytest.raises(services.Conflict) as refused:
        submit(replace(REQUEST, gpus=16), key="k")
    assert refused.value.job == first.job


def test_keys_of_other_teams_and_no_keys_never_meet(store: MemoryStore, submit: Submitter, ada: User) -> None:
    submit(key="k")
    other = Submitter(ada, QuotaNode.objects.create(name="speech"))
    other.ids = submit.ids
    assert other(replace(REQUEST, team="speech"), key="k").created
    assert submit().created
    assert submit().created


def test_a_key_that_comes_in_twice_at_once_makes_one_job(store: MemoryStore, submit: Submitter) -> None:
    together = Barrier(4)

    def one(_: int) -> services.Submitted:
        try:
            together.wait(10)
            return submit(key="k")
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(one, range(4)))
    assert [answer.created for answer in answers].count(True) == 1
    assert len({answer.job.pk for answer in answers}) == 1
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    ("wish", "field"),
    [(services.cancel, "cancel"), (services.hold, "hold")],
    ids=["cancel", "hold"],
)
def test_a_wish_reaches_the_store_and_asked_again_changes_nothing(
    store: MemoryStore, submit: Submitter, wish: Any, field: str
) -> None:
    job = submit().job
    assert wish(job.pk).intent_version == 2
    assert wish(job.pk).intent_version == 2
    found = intent(store, job)
    assert found is not None
    assert (found.version, getattr(found, field)) == (2, True)


def test_a_hold_is_released(store: MemoryStore, submit: Submitter) -> None:
    job = submit().job
    services.hold(job.pk)
    services.release(job.pk)
    assert intent(store, job) == JobIntent(REQUEST.to_spec(job.pk, NOW), version=3)


@pytest.mark.parametrize("wish", [services.cancel, services.hold])
def test_of_a_job_that_has_ended_nothing_can_be_wished(store: MemoryStore, submit: Submitter, wish: Any) -> None:
    job = submit().job
    Job.objects.update(state=Phase.SUCCEEDED.value)
    with pytest.raises(services.AlreadyOver) as refused:
        wish(job.pk)
    assert refused.value.job.state == "SUCCEEDED"


def test_a_cancelled_job_may_be_cancelled_again(store: MemoryStore, submit: Submitter) -> None:
    job = submit().job
    services.cancel(job.pk)
    Job.objects.update(state=Phase.CANCELLED.value)
    assert services.cancel(job.pk).intent_version == 2


def test_a_job_that_nobody_submitted_cannot_be_cancelled(store: MemoryStore) -> None:
    with pytest.raises(Job.DoesNotExist):
        services.cancel("nobody")


class After(JobRequest):
    """A request that waits for other jobs, as arrays and dependencies will make them."""

    def to_spec(self, job_id: str, submitted_ms: int) -> Any:
        return replace(JobRequest.to_spec(self, job_id, submitted_ms), after=tuple(self.body["after"]))


def after(*jobs: Job | str) -> JobRequest:
    fields = {name: getattr(REQUEST, name) for name in JobRequest.__slots__}
    return After(**fields | {"body": {"after": [job if isinstance(job, str) else job.pk for job in jobs]}})


def test_a_job_waits_only_for_those_that_have_not_succeeded(store: MemoryStore, submit: Submitter) -> None:
    done, running = submit().job, submit().job
    Job.objects.filter(pk=done.pk).update(state=Phase.SUCCEEDED.value)
    job = submit(after(done, running)).job
    assert list(job.after.all()) == [running]
    found = intent(store, job)
    assert found is not None
    assert found.spec.after == (running.pk,)


@pytest.mark.parametrize("state", [Phase.FAILED, Phase.CANCELLED, None])
def test_a_job_cannot_wait_for_one_that_will_never_succeed(
    store: MemoryStore, submit: Submitter, state: Phase | None
) -> None:
    first: Job | str = "nobody"
    if state is not None:
        first = submit().job
        Job.objects.update(state=state.value)
    before = Job.objects.count()
    with pytest.raises(services.DependencyFailed):
        submit(after(first))
    assert Job.objects.count() == before
    assert not Outbox.objects.exists()


@pytest.mark.parametrize("past", [False, True], ids=["before the step", "after the step"])
def test_a_submission_killed_at_any_step_is_whole_or_was_never_made(
    submit: Submitter, past: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fuse in every_cut(past):
        store = MemoryStore(lambda: 0)
        use(monkeypatch, FusedStore(store, fuse))
        accepted = []
        with killed(fuse), fused_database(fuse):
            accepted.append(submit(key="k").job)
        use(monkeypatch, store)
        outbox.sweep(store)
        rows = {job.pk for job in Job.objects.all()}
        live = {entry.key.removeprefix(keys.INTENT_JOBS) for entry in store.read(keys.INTENT_JOBS).entries}
        assert rows == live, "a job is in both or in neither"
        assert {job.pk for job in accepted} <= rows, "what was answered is there"
        assert not Outbox.objects.exists()
        again = submit(key="k")
        assert {job.pk for job in Job.objects.all()} == {again.job.pk}, "asked again, it is there once"
        Job.objects.all().delete()
        Outbox.objects.all().delete()


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        pytest.param(REQUEST, None, id="one that fits"),
        pytest.param(replace(REQUEST, gpus=24), "NEVER_FITS", id="larger than the fleet"),
        pytest.param(replace(REQUEST, gpu_type="A100"), "NEVER_FITS", id="of a type that there is not"),
    ],
)
def test_what_could_never_run_is_refused_where_the_live_state_is_known(
    submit: Submitter, store: MemoryStore, request_: JobRequest, code: str | None
) -> None:
    puts = [Put(keys.INTENT_QUOTA, codec.encode(QuotaTree(open=True)))]
    for name in ("n1", "n2"):
        puts.append(Put(keys.intent_node(name), codec.encode(NodeIntent(name, "az1", "r1", "H100"))))
    store.commit([], puts)
    picture = Picture(lambda: store, lambda: NOW).start()
    assert picture.wait_for(2, 10)
    submit.picture = picture
    try:
        if code is None:
            assert submit(request_).created
        else:
            with pytest.raises(services.Refused) as refused:
                submit(request_)
            assert refused.value.refusal.code == code
            assert not Job.objects.exists()
    finally:
        picture.stop()
    assert submit(replace(request_, name="again")).created, "a stale picture refuses nobody"


ARRAY = replace(REQUEST, count=150, throttle=10)


def test_an_array_reaches_the_store_whole(store: MemoryStore, submit: Submitter) -> None:
    first = submit(ARRAY, key="k").job
    jobs = list(Job.objects.order_by("pk"))
    assert [job.name for job in jobs] == [f"run[{at}]" for at in range(150)]
    assert {job.array_id for job in jobs} == {first.pk}
    kept = [intent(store, job) for job in jobs]
    assert all(one is not None and one.spec.array == first.pk and one.spec.throttle == 10 for one in kept)
    assert not Outbox.objects.exists()
    again = submit(ARRAY, key="k")
    assert (again.job, again.created, Job.objects.count()) == (first, False, 150)


def test_an_array_is_accepted_while_the_store_is_away(store: MemoryStore, submit: Submitter) -> None:
    store.fail()
    submit(replace(ARRAY, count=3))
    store.recover()
    assert outbox.sweep(store) == 3


def test_all_of_an_array_wait_for_what_it_comes_after(store: MemoryStore, submit: Submitter) -> None:
    before = submit().job
    spec = replace(ARRAY, count=2).to_spec("X" * 26, NOW)
    made = services._create_all(submit.user, submit.team, ARRAY, [replace(spec, after=(before.pk,))], None)
    assert list(made.after.all()) == [before]


def test_what_ended_meanwhile_is_not_put_back(store: MemoryStore, submit: Submitter) -> None:
    store.fail()
    submit(replace(ARRAY, count=3))
    store.recover()
    over = Job.objects.order_by("pk").last()
    assert over is not None
    Job.objects.filter(pk=over.pk).update(state=Phase.CANCELLED)
    outbox.deliver_all(list(Outbox.objects.order_by("pk")), store)
    assert [intent(store, job) is not None for job in Job.objects.order_by("pk")] == [True, True, False]
