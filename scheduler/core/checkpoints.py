"""Which checkpoint a job would resume from, once its newest has turned out to be torn. Pure."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.attempts import Moved, tell
from scheduler.core.job import Job
from scheduler.core.types import TERMINAL, EventKind, GangReport, JobDecision, Phase, Torn


def known_torn(job: Job, gang: GangReport) -> bool:
    """Whether the checkpoint that a node reports as the newest is known to be of no use."""
    torn = job.intent.torn
    return torn is not None and gang.manifest in torn.manifests


def fallen_back(job: Job, now_ms: int) -> Moved | None:
    """The decision that counts on the last good checkpoint in place of a torn one; None where nothing has to change.

    Ranks that run have resumed from what they found good by themselves; those that are not released yet are told anew.
    """
    torn, old = job.intent.torn, job.decision
    if torn is None or old.phase in TERMINAL:
        return None
    newest, resumed = old.manifest in torn.manifests, _yet_to_resume(old) in torn.manifests
    if not newest and not resumed:
        return None
    decision = old
    if newest:
        decision = _trusting(decision, torn)
        if old.phase is Phase.PENDING:
            decision = replace(decision, lost_ms=old.lost_ms + old.saved_work_ms - decision.saved_work_ms)
    if resumed:
        kept = min(old.banked_ms, torn.work_ms)
        lost = old.lost_ms + old.banked_ms - kept
        decision = replace(decision, resume_from=torn.instead, banked_ms=kept, lost_ms=lost)
    torn_one = old.manifest if newest else old.resume_from
    detail = {"manifest": torn_one, "instead": torn.instead, "why": torn.why, "work_ms": decision.saved_work_ms}
    return decision, [tell(EventKind.TORN, job, decision, now_ms, **detail)]


def _yet_to_resume(decision: JobDecision) -> str:
    return decision.resume_from if decision.phase is Phase.STARTING else ""


def _trusting(decision: JobDecision, torn: Torn) -> JobDecision:
    work_ms = min(decision.saved_work_ms, torn.work_ms)
    return replace(decision, manifest=torn.instead, saved_work_ms=work_ms, saved_at_ms=torn.saved_at_ms)
