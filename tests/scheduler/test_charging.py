"""The journal becomes the ledger once, whatever dies between; and what is in the ledger stays."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from portal.accounts.models import User
from quotas import services
from quotas.ledger import rollup
from quotas.models import Charge, Holding, LedgerMark, QuotaNode, UsageDay
from scheduler import clock, recorder
from scheduler.core.types import EventKind, Phase, QuotaTree
from scheduler.core.types import QuotaNode as CoreNode
from scheduler.models import Job
from tests.scheduler.failing import FusedStore, every_cut, fused_database, killed
from tests.scheduler.test_recorder import GPUS, World, event

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = 60_000
MIDNIGHT = 20_000 * 86_400_000
BEGINS = MIDNIGHT - 10 * MINUTE


@pytest.fixture
def team() -> QuotaNode:
    tree = QuotaTree((CoreNode("research"), CoreNode("vision", "research", floor={"H100": 6})))
    services.apply(tree, at=clock.to_datetime(0))
    return QuotaNode.objects.get(name="vision")


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", "Ada@example.com")


def live(world: World, job: str) -> None:
    """8 GPUs, ready after 2 minutes, stopped after 30 and gone after 31, 5 minutes of work lost."""
    world.commit(event(EventKind.BIND, job, Phase.STARTING, at_ms=BEGINS, gpus=GPUS, gpu_type="H100"))
    world.commit(event(EventKind.START, job, Phase.RUNNING, at_ms=BEGINS + 2 * MINUTE))
    world.commit(event(EventKind.STOP, job, Phase.STOPPING, at_ms=BEGINS + 30 * MINUTE, cause="drain"))
    world.commit(
        event(EventKind.RELEASE, job, Phase.PENDING, at_ms=BEGINS + 31 * MINUTE, gpus=GPUS, lost_ms=6 * MINUTE)
    )


def lines(job: str) -> list[tuple[str, int, int, int, int, int]]:
    """Kind, from and to in minutes, and the GPUs, line by line."""
    rows = Charge.objects.filter(job=job).order_by("pk")
    return [
        (
            row.kind,
            (clock.to_ms(row.starts) - BEGINS) // MINUTE,
            (clock.to_ms(row.ends) - BEGINS) // MINUTE,
            row.floor,
            row.burst,
            row.lost,
        )
        for row in rows
    ]


LINES = [
    ("held", 0, 2, 0, 0, 8),
    ("held", 2, 10, 6, 2, 0),
    ("held", 10, 30, 6, 2, 0),
    ("held", 30, 31, 0, 0, 8),
    ("loss", 25, 30, -6, -2, 8),
]
"""The job's spec has no checkpoint: a minute of the six was lost in the stop already."""


def test_a_life_is_charged_to_job_user_team_and_those_above(team: QuotaNode, ada: User) -> None:
    world = World()
    world.job("j1", team, ada)
    live(world, "j1")
    recorder.record(world.store, BEGINS)
    assert lines("j1") == LINES
    row = Charge.objects.filter(job="j1").first()
    assert row is not None
    assert (row.team.name, row.user, row.path, row.jobs) == ("vision", "ada@example.com", ["research", "vision"], 1)
    assert not Holding.objects.exists()


@pytest.mark.parametrize("after", [False, True], ids=["before the step", "after the step"])
def test_a_recorder_killed_at_any_step_charges_nothing_twice(team: QuotaNode, ada: User, after: bool) -> None:
    for number, fuse in enumerate(every_cut(after)):
        world, job = World(), f"j{number}"
        world.entries = number * 100
        world.job(job, team, ada)
        live(world, job)
        with killed(fuse), fused_database(fuse):
            recorder.record(FusedStore(world.store, fuse), BEGINS)
        recorder.record(world.store, BEGINS)
        assert lines(job) == LINES


def test_a_ledger_that_is_begun_late_tells_of_all_history(team: QuotaNode, ada: User) -> None:
    world = World()
    world.job("j1", team, ada)
    live(world, "j1")
    recorder.record(world.store, BEGINS)
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE quotas_charge, quotas_ledgermark")
    world.job("j2", team, ada)
    live(world, "j2")
    recorder.record(world.store, BEGINS)
    assert lines("j1") == lines("j2") == LINES


@pytest.mark.parametrize("statement", ["UPDATE quotas_charge SET floor = 0", "DELETE FROM quotas_charge"])
def test_a_line_is_never_changed(team: QuotaNode, ada: User, statement: str) -> None:
    world = World()
    world.job("j1", team, ada)
    live(world, "j1")
    recorder.record(world.store, BEGINS)
    with pytest.raises(DatabaseError, match="never changed"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert lines("j1") == LINES


def test_sums_by_day_are_those_of_the_lines_however_often_they_are_made(team: QuotaNode, ada: User) -> None:
    world = World()
    for job in ("j1", "j2"):
        world.job(job, team, ada)
        live(world, job)
        recorder.record(world.store, BEGINS)
        while rollup.roll_up():
            pass
        assert not rollup.roll_up()
    gpu_minute = MINUTE
    assert [
        (row.floor_ms // gpu_minute, row.burst_ms // gpu_minute, row.lost_ms // gpu_minute, row.jobs)
        for row in UsageDay.objects.order_by("day")
    ] == [(2 * 48, 2 * 16, 2 * 16, 2), (2 * 90, 2 * 30, 2 * 48, 0)]
    assert LedgerMark.objects.get().rolled_to == Charge.objects.latest("pk").pk


def test_a_tree_counts_from_its_own_moment_on(team: QuotaNode, ada: User) -> None:
    world = World()
    world.job("j1", team, ada)
    world.commit(event(EventKind.BIND, "j1", Phase.STARTING, at_ms=BEGINS, gpus=GPUS, gpu_type="H100"))
    world.commit(event(EventKind.START, "j1", Phase.RUNNING, at_ms=BEGINS))
    recorder.record(world.store, BEGINS)
    moved = QuotaTree((CoreNode("labs"), CoreNode("research"), CoreNode("vision", "labs", floor={"H100": 8})))
    services.apply(moved, at=clock.to_datetime(BEGINS + 4 * MINUTE))
    world.commit(event(EventKind.RELEASE, "j1", Phase.PENDING, at_ms=BEGINS + 9 * MINUTE, gpus=GPUS, lost_ms=0))
    recorder.record(world.store, BEGINS)
    assert lines("j1") == [("held", 0, 4, 6, 2, 0), ("held", 4, 9, 8, 0, 0)]
    assert [row.path[0] for row in Charge.objects.order_by("pk")] == ["research", "labs"]


def test_a_batch_is_charged_in_a_few_queries(team: QuotaNode, ada: User) -> None:
    counted = []
    for jobs in (2, 40):
        world = World()
        world.entries = jobs * 1_000
        for number in range(jobs):
            world.job(f"{jobs}-{number}", team, ada)
            live(world, f"{jobs}-{number}")
        with CaptureQueriesContext(connection) as asked:
            recorder.record(world.store, BEGINS)
        counted.append(sum("quotas_" in query["sql"] for query in asked.captured_queries))
    assert counted[1] <= counted[0] + 2
    assert Job.objects.count() == 42
