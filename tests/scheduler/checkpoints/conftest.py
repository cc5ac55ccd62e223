"""A job with checkpoints in a bucket of its own, on a real S3 server behind a proxy that misbehaves on order."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from quotas.models import QuotaNode
from scheduler.checkpoints import services
from scheduler.checkpoints.layout import Place, home
from scheduler.checkpoints.models import Checkpoint
from scheduler.checkpoints.reported import note
from scheduler.connections import ids
from scheduler.core.types import CheckpointSpec, Event, EventKind, JobSpec, Phase
from scheduler.models import Job
from scheduler.objects import Address, Objects
from tests.portal.people import make_tree, make_user
from tests.scheduler.builders import row_of_job

START = datetime(2026, 4, 19, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)


@dataclass
class Shelf:
    """The checkpoints of one job, as its ranks write them and its agents report them."""

    objects: Objects
    job: Job
    below: Address
    now: datetime = START
    work_ms: int = 0
    digests: dict[str, str] = field(default_factory=dict)

    def place(self, step: int, attempt: int = 1) -> Place:
        return Place(self.below.bucket, f"{self.below.key}a{attempt:05}-s{step:012}/", attempt, step)

    def save(
        self, step: int, attempt: int = 1, files: dict[str, bytes] | None = None, says: dict[str, Any] | None = None
    ) -> Place:
        """Write a checkpoint whole; ``says`` replaces what its manifest says."""
        place = self.place(step, attempt)
        listed = []
        for name, data in (files or {"state": f"state at {attempt}-{step}".encode()}).items():
            self.objects.put(place.file(name), data)
            listed.append({"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()})
        body = {"format": "gangway-checkpoint/1", "job": self.job.pk, "attempt": attempt, "step": step, "files": listed}
        body |= {"saved_at_ms": START_MS + step, "took_ms": 900}
        self.objects.put(place.manifest, json.dumps(body | (says or {})).encode())
        return place

    def report(self, *places: Place) -> None:
        """What the recorder makes of the agents' word."""
        events = []
        for place in places:
            self.work_ms += 60_000
            detail = {"manifest": str(place.manifest), "step": place.step, "work_ms": self.work_ms}
            detail["saved_at_ms"] = START_MS + place.step
            events.append(Event(EventKind.CHECKPOINT, START_MS + 1000, self.job.pk, None, place.attempt, detail))
        note(events, {self.job.pk: self.job}, self.now)

    def look(self, seconds: float = 2.0) -> int:
        """Let time pass and look at what is due until nothing is."""
        self.now += timedelta(seconds=seconds)
        done = 0
        while looked := services.look_at_due(self.objects, lambda: self.now):
            done += looked
        return done

    def states(self) -> dict[str, str]:
        """Attempt-step → state, the newest first."""
        rows = Checkpoint.objects.filter(job=self.job).order_by("-attempt", "-step")
        return {f"{row.attempt}-{row.step}": row.state for row in rows}

    def row(self, step: int, attempt: int = 1) -> Checkpoint:
        return Checkpoint.objects.get(job=self.job, attempt=attempt, step=step)

    def fresh(self) -> Job:
        return Job.objects.get(pk=self.job.pk)

    def left(self) -> list[str]:
        return [one.key.removeprefix(self.below.key) for one in self.objects.below(self.below)]


@pytest.fixture
def shelf(db: None, objects: Objects) -> Shelf:
    """A job that keeps its last two checkpoints."""
    make_tree()
    bucket = f"models-{uuid4().hex[:12]}"
    objects.make_bucket(bucket)
    path = f"s3://{bucket}/team/run"
    saves = CheckpointSpec(600_000, 20_000, path, 2)
    spec = JobSpec(ids(), "vision", 8, "H100", 2, 3_600_000, START_MS, checkpoint=saves, name="train")
    team = QuotaNode.objects.get(name="vision")
    job = row_of_job(spec, team, make_user("ada", "vision"), state=Phase.RUNNING.value, attempt=1)
    return Shelf(objects, job, home(path, job.pk))
