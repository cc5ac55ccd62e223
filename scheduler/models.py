"""Jobs and their history in PostgreSQL, and the outbox by which intent reaches etcd."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models.functions import Upper

from quotas.models import QuotaNode
from scheduler.checkpoints.models import Checkpoint as Checkpoint
from scheduler.core.types import TERMINAL, EventKind, Hint, Phase
from scheduler.eta.models import RunTimeModel as RunTimeModel
from scheduler.eta.models import StartTold as StartTold
from scheduler.oncall import Act as Act
from scheduler.oncall import MapFrame as MapFrame
from scheduler.oncall import Reservation as Reservation
from scheduler.oncall import StoreOutage as StoreOutage
from scheduler.ranklogs.models import RankLog as RankLog

OF_FLEET = (EventKind.HOST.value, EventKind.GPU.value, EventKind.LEADER.value, EventKind.NOTICE.value)

LIVE_STATES = tuple(phase.value for phase in Phase if phase not in TERMINAL)


class Job(models.Model):
    """A job that was accepted. ``spec`` is the body as submitted, ``core_spec`` the ``JobSpec`` that was made of it.

    ``state`` and what follows it are copied up from the journal by the recorder and are never ahead of etcd;
    ``revision`` is that of the newest journal entry copied, so that an older one changes nothing. ``allocation`` is
    ``[{"node": …, "gpus": [indices]}]`` in the order of ranks. ``in_store`` is true until the recorder has taken a job
    that ended out of etcd. ``torn`` is what is known against its newest checkpoint (``core.types.Torn``).
    ``array_id`` is the id of the first job of the array that it belongs to, empty without one.
    """

    id = models.CharField(max_length=32, primary_key=True)
    name = models.CharField(max_length=128)
    team = models.ForeignKey(QuotaNode, on_delete=models.PROTECT, related_name="jobs")
    owner = models.CharField(max_length=254)
    submitted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs")
    priority = models.PositiveSmallIntegerField()
    gpus = models.PositiveIntegerField()
    gpu_type = models.CharField(max_length=32)
    hint = models.CharField(max_length=32, choices=[(hint.value, hint.value) for hint in Hint])
    max_runtime_ms = models.BigIntegerField()
    spec = models.JSONField()
    core_spec = models.JSONField()
    after = models.ManyToManyField("self", symmetrical=False, related_name="dependants", blank=True)
    submitted_at = models.DateTimeField()
    idempotency_key = models.CharField(max_length=255, null=True, blank=True)
    body_hash = models.CharField(max_length=64)
    array_id = models.CharField(max_length=32, blank=True, default="")

    intent_version = models.PositiveIntegerField(default=1)
    cancel = models.BooleanField(default=False)
    hold = models.BooleanField(default=False)
    torn = models.JSONField(null=True, blank=True)

    state = models.CharField(max_length=16, choices=[(p.value, p.value) for p in Phase], default=Phase.PENDING.value)
    reason = models.CharField(max_length=32, blank=True)
    attempt = models.PositiveIntegerField(default=0)
    allocation = models.JSONField(default=list, blank=True)
    stop_cause = models.CharField(max_length=32, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    revision = models.BigIntegerField(default=0)
    in_store = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "idempotency_key"], name="one_job_an_idempotency_key"),
        ]
        indexes = [
            # With all that a list is narrowed by: the few that match are found without looking at a million rows.
            models.Index(
                fields=["-submitted_at", "-id"],
                include=["team", "priority", "gpu_type", "state", "owner", "name"],
                name="job_list",
            ),
            models.Index(fields=["state", "-submitted_at"], name="job_by_state"),
            models.Index(
                fields=["team", "priority", "gpu_type", "state", "-submitted_at", "-id"],
                name="job_by_kind",
            ),
            models.Index(fields=["submitted_by", "-submitted_at"], name="job_by_person"),
            models.Index(fields=["state"], condition=models.Q(in_store=True), name="job_in_store"),
            models.Index(fields=["array_id", "id"], condition=~models.Q(array_id=""), name="job_by_array"),
            # What lives is a small part of all that ever was.
            models.Index(
                fields=["-submitted_at", "-id"], condition=models.Q(state__in=LIVE_STATES), name="job_live_newest"
            ),
            # As the look-ups without regard to case ask: by UPPER().
            models.Index(Upper("owner"), models.F("submitted_at").desc(), models.F("id").desc(), name="job_by_owner"),
            GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="job_name_text"),
        ]


class JobCount(models.Model):
    """By how many the jobs of one kind became more: triggers of ``Job`` write a row for each statement that changes it.

    The sum of a kind's rows is the number of its jobs, in every transaction's view of the table. Rows are only ever
    added, so nobody waits for a counter that somebody else holds; ``scheduler.counts.fold`` makes one row of many.
    ``owner`` is in upper case.
    """

    team = models.ForeignKey(QuotaNode, on_delete=models.CASCADE, related_name="+")
    owner = models.CharField(max_length=254, db_index=True)
    priority = models.PositiveSmallIntegerField()
    gpu_type = models.CharField(max_length=32)
    state = models.CharField(max_length=16)
    jobs = models.BigIntegerField()


class PolicyRevision(models.Model):
    """The settings of the policy as they once were changed; the highest ``version`` is in force.

    ``chosen`` are fields of ``scheduler.core.types.Policy``; what it leaves out is as the deployment says.
    """

    version = models.PositiveIntegerField(unique=True)
    chosen = models.JSONField(default=dict)
    at = models.DateTimeField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    reason = models.TextField()

    class Meta:
        ordering = ["-version"]

    def __str__(self) -> str:
        return f"Policy {self.version}"


class JobEvent(models.Model):
    """One event of the journal, kept for good. ``entry`` and ``position`` name it: a second copy is not inserted."""

    entry = models.CharField(max_length=64)
    position = models.PositiveIntegerField()
    revision = models.BigIntegerField()
    kind = models.CharField(max_length=16)
    at = models.DateTimeField()
    job = models.ForeignKey(Job, null=True, on_delete=models.CASCADE, related_name="events")
    node = models.CharField(max_length=128, blank=True)
    attempt = models.PositiveIntegerField(default=0)
    detail = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["entry", "position"], name="one_row_an_event")]
        indexes = [
            models.Index(fields=["job", "revision", "position"], name="event_by_job"),
            models.Index(fields=["node", "-at"], name="event_by_node"),
            models.Index(fields=["revision", "position"], name="event_by_revision"),
            models.Index(fields=["-at", "-id"], condition=models.Q(kind__in=OF_FLEET), name="event_of_fleet"),
            models.Index(fields=["-at", "-id"], condition=models.Q(kind="stop"), name="event_of_stops"),
            models.Index(fields=["-at"], condition=models.Q(kind="release"), name="event_of_releases"),
        ]


class Outbox(models.Model):
    """An intent that must reach etcd, written in the transaction that made it true. Deleted once it is there."""

    key = models.CharField(max_length=255)
    value = models.BinaryField()
    version = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
