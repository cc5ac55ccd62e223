"""What people do to jobs: submit, cancel, hold, release. Each is one transaction with its intent in the outbox."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import IntegrityError, transaction

from quotas.models import QuotaNode
from scheduler import budgets, clock, outbox
from scheduler.budgets import Spent
from scheduler.core.admission import Refusal, refusal
from scheduler.core.types import TERMINAL, JobIntent, JobSpec, Phase, Torn
from scheduler.models import Job
from scheduler.picture import Picture
from scheduler.requests import JobRequest
from scheduler.store import codec, keys


class Conflict(Exception):
    """The team has used this idempotency key for another request, the one that made ``job``."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"the idempotency key belongs to job {job.pk}, which was asked for with another body")
        self.job = job


class Refused(Exception):
    """The job could never run. ``refusal`` has the reason with its numbers."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason.text)
        self.refusal = reason


class OverBudget(Exception):
    """A node above the team, or the team, has used up its budget. ``spent`` has the numbers."""

    def __init__(self, spent: Spent) -> None:
        super().__init__(f"{spent.node} has used up its budget")
        self.spent = spent


class AlreadyOver(Exception):
    """The job has ended, so nothing can be wished of it any more."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"job {job.pk} is {job.state} already")
        self.job = job


class DependencyFailed(Exception):
    """A job that had to succeed first does not exist or ended otherwise."""

    def __init__(self, job_id: str, state: str | None) -> None:
        super().__init__(f"job {job_id} is {state}" if state else f"there is no job {job_id}")
        self.job_id = job_id


@dataclass(frozen=True, slots=True)
class Submitted:
    """``created`` is false where the idempotency key led to a job that was there already."""

    job: Job
    created: bool


def submit(
    user: AbstractUser,
    team: QuotaNode,
    request: JobRequest,
    *,
    idempotency_key: str | None,
    now_ms: int,
    ids: Callable[[], str],
    picture: Picture | None = None,
) -> Submitted:
    """Accept a job, or an array of them, of which the first is answered.

    Once this returns, none can be lost; whether the store can be reached makes no difference.

    Args:
        user: who asks; ``request.owner`` may be someone else.
        idempotency_key: the same key of a team with the same body is the same job; of an array the first one has it.
        picture: where it is fresh, a job that could never run is refused by it.

    Raises:
        Conflict, Refused, OverBudget, DependencyFailed: nothing was written.
    """
    if idempotency_key is not None:
        earlier = _earlier(team, idempotency_key, request)
        if earlier is not None:
            return Submitted(earlier, created=False)
    stopped = budgets.stopping(team.name, clock.to_datetime(now_ms))
    if stopped is not None:
        raise OverBudget(stopped)
    spec = request.to_spec(ids(), now_ms)
    _admit(spec, picture, now_ms)
    try:
        with transaction.atomic():
            specs = _elements(_without_met(spec), request, ids)
            job = _create_all(user, team, request, specs, idempotency_key)
            outbox.enqueue_all({keys.intent_job(one.id): JobIntent(one) for one in specs})
    except IntegrityError:
        # The same key came in twice at the same moment and the other one was first.
        earlier = _earlier(team, idempotency_key, request) if idempotency_key is not None else None
        if earlier is None:
            raise
        return Submitted(earlier, created=False)
    return Submitted(job, created=True)


def cancel(job_id: str) -> Job:
    """Have the job end as CANCELLED, with its checkpoint and grace if it runs. Asked again, nothing changes.

    Raises:
        Job.DoesNotExist: there is no such job.
        AlreadyOver: it ended before anybody asked.
    """
    return _wish(job_id, cancel=True)


def hold(job_id: str) -> Job:
    """Don't start the job's next attempt until it is released. What runs goes on. Raises as ``cancel``."""
    return _wish(job_id, hold=True)


def release(job_id: str) -> Job:
    """Undo a hold. Raises as ``cancel``."""
    return _wish(job_id, hold=False)


def _earlier(team: QuotaNode, key: str, request: JobRequest) -> Job | None:
    """The job that this key stands for, or None.

    Raises:
        Conflict: it was asked for with another body.
    """
    job = Job.objects.select_related("team").filter(team=team, idempotency_key=key).first()
    if job is not None and job.body_hash != request.body_hash():
        raise Conflict(job)
    return job


def _admit(spec: JobSpec, picture: Picture | None, now_ms: int) -> None:
    if picture is None or not picture.fresh:
        return
    with picture.reading() as snapshot:
        never = refusal(snapshot, spec, now_ms)
    if never is not None:
        raise Refused(never)


def _without_met(spec: JobSpec) -> JobSpec:
    """The spec, waiting only for jobs that have not succeeded yet.

    Their rows stay locked until the new job is there, so that the recorder, which writes a job's end under the same
    lock and looks for dependants after that, keeps in the store every job that a live one waits for.
    """
    if not spec.after:
        return spec
    rows = {job.pk: job.state for job in Job.objects.select_for_update().filter(pk__in=spec.after).order_by("pk")}
    for job_id in spec.after:
        if job_id not in rows or rows[job_id] in TERMINAL - {Phase.SUCCEEDED}:
            raise DependencyFailed(job_id, rows.get(job_id))
    return replace(spec, after=tuple(job_id for job_id in spec.after if rows[job_id] != Phase.SUCCEEDED))


def _elements(first: JobSpec, request: JobRequest, ids: Callable[[], str]) -> list[JobSpec]:
    """The jobs of an array, or the single one that there is."""
    more = (replace(first, id=ids(), name=f"{request.name}[{at}]") for at in range(1, request.count))
    return [first, *more]


def _create_all(
    user: AbstractUser, team: QuotaNode, request: JobRequest, specs: list[JobSpec], idempotency_key: str | None
) -> Job:
    jobs = Job.objects.bulk_create(
        _row(user, team, request, spec, idempotency_key if at == 0 else None) for at, spec in enumerate(specs)
    )
    if specs[0].after:
        after = Job.after.through
        after.objects.bulk_create(
            after(from_job_id=job.pk, to_job_id=other) for job in jobs for other in specs[0].after
        )
    return jobs[0]


def _row(user: AbstractUser, team: QuotaNode, request: JobRequest, spec: JobSpec, idempotency_key: str | None) -> Job:
    return Job(
        id=spec.id,
        name=spec.name,
        team=team,
        owner=spec.owner,
        submitted_by_id=user.pk,
        priority=spec.priority,
        gpus=spec.gpus,
        gpu_type=spec.gpu_type,
        hint=spec.hint.value,
        max_runtime_ms=spec.max_runtime_ms,
        spec=request.body,
        core_spec=json.loads(codec.encode(spec)),
        submitted_at=clock.to_datetime(spec.submitted_ms),
        idempotency_key=idempotency_key,
        body_hash=request.body_hash(),
        array_id=spec.array,
    )


def _wish(job_id: str, **wanted: bool) -> Job:
    with transaction.atomic():
        job = Job.objects.select_for_update(of=("self",)).select_related("team").get(pk=job_id)
        changed: dict[str, Any] = {name: value for name, value in wanted.items() if getattr(job, name) != value}
        if not changed:
            return job
        if job.state in TERMINAL:
            raise AlreadyOver(job)
        for name, value in changed.items():
            setattr(job, name, value)
        job.intent_version += 1
        job.save(update_fields=[*changed, "intent_version"])
        outbox.enqueue(keys.intent_job(job.pk), intent_of(job))
        return job


def intent_of(job: Job) -> JobIntent:
    """What the store should hold of the job."""
    spec = codec.decode(JobSpec, json.dumps(job.core_spec).encode())
    torn = None if job.torn is None else codec.decode(Torn, json.dumps(job.torn).encode())
    return JobIntent(spec, version=job.intent_version, cancel=job.cancel, hold=job.hold, torn=torn)
