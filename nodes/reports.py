"""What an agent may say: the bounds within which a report is believed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from nodes import telemetry
from nodes.protocol import BOOT_ID, ProtocolError, SyncRequest
from scheduler.core.snapshot import Snapshot
from scheduler.core.types import GangReport, GpuFault, NodeReport, Notice

MAX_GANGS_A_GPU = 4
"""Attempts a GPU that a report may name: the one that runs, and earlier ones whose end is still being reported."""
MAX_RANK = 1 << 20
MAX_NUMBER = 1 << 53
"""The largest whole number that every JSON reader keeps exact."""
MAX_ADDRESS = 2048
"""Characters of a checkpoint's address."""

MAX_NOTICES = 16
MAX_FAULTS = 32
MAX_TEXT = 128
MAX_HINDRANCE = 300
MAX_XID = 65_535

_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:\[\]-]{0,63}")
_EXIT_CODES = range(-255, 256)


def check(request: SyncRequest, gpus: int) -> None:
    """Raise ``ProtocolError`` for the first thing in the request that a node with so many GPUs cannot have seen."""
    for field, reason in _problems(request, gpus):
        raise ProtocolError(field, reason)


def stamp(report: NodeReport) -> tuple[str, int]:
    """When the report was sent, in the node's own count: boot and message. Stamps of a node compare by age."""
    return report.boot_id, report.sequence


def same_observation(one: NodeReport, other: NodeReport) -> bool:
    """Whether two reports say the same but for the number of the message that brought them."""
    return (
        one.boot_id == other.boot_id
        and one.gangs == other.gangs
        and one.faulty_gpus == other.faulty_gpus
        and one.gone_at_ms == other.gone_at_ms
        and one.notices == other.notices
        and one.faults == other.faults
    )


def overtaken(snapshot: Snapshot, report: NodeReport) -> int:
    """How many of the report's gangs are of another attempt than the one that was decided last: nothing follows from
    what is said of them."""
    jobs = ((snapshot.jobs.get(gang.job), gang.attempt) for gang in report.gangs)
    return sum(job is not None and job.decision.attempt != attempt for job, attempt in jobs)


def _problems(request: SyncRequest, gpus: int) -> Iterator[tuple[str, str]]:
    report = request.report
    if not BOOT_ID.fullmatch(report.boot_id):
        yield "report.boot_id", "must be eight digits, a dash and 8 to 32 hexadecimal digits"
    if not 1 <= request.sequence < MAX_NUMBER:
        yield "sequence", "must be at least 1"
    if not 0 <= request.revision < MAX_NUMBER:
        yield "revision", "must not be negative"
    if len(request.known) > 64:
        yield "known", "must be the hash of an earlier answer"
    if not request.wait_s >= 0:
        yield "wait_s", "must not be negative"
    if report.gone_at_ms is not None and not 0 <= report.gone_at_ms < MAX_NUMBER:
        yield "report.gone_at_ms", "must be milliseconds since 1970"
    if len(set(report.faulty_gpus)) != len(report.faulty_gpus) or any(not 0 <= i < gpus for i in report.faulty_gpus):
        yield "report.faulty_gpus", f"must be different indices below {gpus}, the GPUs of this node"
    if request.telemetry is not None:
        for field, reason in telemetry.problems(request.telemetry, gpus):
            yield f"telemetry.{field}", reason
    yield from _notice_problems(report.notices)
    yield from _fault_problems(report.faults, gpus)
    yield from _gangs_problems(report.gangs, gpus)


def _notice_problems(notices: tuple[Notice, ...]) -> Iterator[tuple[str, str]]:
    if len(notices) > MAX_NOTICES:
        yield "report.notices", f"must be at most {MAX_NOTICES}"
    for index, notice in enumerate(notices):
        if not 1 <= len(notice.id) <= MAX_TEXT:
            yield f"report.notices[{index}].id", f"must be 1 to {MAX_TEXT} characters"
        if notice.gone_at_ms is not None and not 0 <= notice.gone_at_ms < MAX_NUMBER:
            yield f"report.notices[{index}].gone_at_ms", "must be milliseconds since 1970"


def _fault_problems(faults: tuple[GpuFault, ...], gpus: int) -> Iterator[tuple[str, str]]:
    if len(faults) > MAX_FAULTS:
        yield "report.faults", f"must be at most {MAX_FAULTS}"
    if any(later.at_ms <= earlier.at_ms for earlier, later in pairwise(faults)):
        yield "report.faults", "must be in the order of their moments, which differ"
    for index, fault in enumerate(faults):
        if fault.gpu is not None and not 0 <= fault.gpu < gpus:
            yield f"report.faults[{index}].gpu", f"must be an index below {gpus}, the GPUs of this node"
        if not 0 <= fault.xid <= MAX_XID:
            yield f"report.faults[{index}].xid", f"must be from 0 to {MAX_XID}"
        if not 0 <= fault.at_ms < MAX_NUMBER:
            yield f"report.faults[{index}].at_ms", "must be milliseconds since 1970"
        if fault.job and not _JOB_ID.fullmatch(fault.job):
            yield f"report.faults[{index}].job", "must be the id of a job"
        if not 0 <= fault.attempt < MAX_RANK:
            yield f"report.faults[{index}].attempt", "must not be negative"


def _gangs_problems(gangs: tuple[GangReport, ...], gpus: int) -> Iterator[tuple[str, str]]:
    if len(gangs) > MAX_GANGS_A_GPU * gpus:
        yield "report.gangs", f"must be at most {MAX_GANGS_A_GPU * gpus}"
    if len({(gang.job, gang.attempt) for gang in gangs}) != len(gangs):
        yield "report.gangs", "must name an attempt of a job once"
    for index, gang in enumerate(gangs):
        for field, reason in _gang_problems(gang, gpus):
            yield f"report.gangs[{index}].{field}", reason


def _gang_problems(gang: GangReport, gpus: int) -> Iterator[tuple[str, str]]:
    if not _JOB_ID.fullmatch(gang.job):
        yield "job", "must be the id of a job"
    if not 1 <= gang.attempt < MAX_RANK:
        yield "attempt", "must be at least 1"
    if not 0 <= gang.saved_work_ms < MAX_NUMBER:
        yield "saved_work_ms", "must not be negative"
    if not 0 <= gang.saved_at_ms < MAX_NUMBER:
        yield "saved_at_ms", "must not be negative"
    if len(gang.manifest) > MAX_ADDRESS or not gang.manifest.isprintable():
        yield "manifest", f"must be an address of at most {MAX_ADDRESS} printable characters"
    if not 0 <= gang.step < MAX_NUMBER:
        yield "step", "must not be negative"
    if len(gang.hindrance) > MAX_HINDRANCE or not gang.hindrance.isprintable():
        yield "hindrance", f"must be at most {MAX_HINDRANCE} printable characters"
    if not 0 <= gang.port < 65_536:
        yield "port", "must be a port"
    if len(gang.ranks) > gpus:
        yield "ranks", f"must be at most {gpus}, one a GPU of this node"
    if len({rank.rank for rank in gang.ranks}) != len(gang.ranks):
        yield "ranks", "must name a rank once"
    for index, rank in enumerate(gang.ranks):
        if not 0 <= rank.rank < MAX_RANK:
            yield f"ranks[{index}].rank", "must not be negative"
        if rank.exit_code is not None and rank.exit_code not in _EXIT_CODES:
            yield f"ranks[{index}].exit_code", "must be from -255 to 255"
