"""Hosts that were set aside, and how they get back: quarantine, then probation, each longer with every relapse.

Pure functions on a node and its decision. A host is set aside because jobs keep failing on it or because it keeps
falling silent; what runs there stays. Afterwards it takes work again, but half of what set it aside the first time
does so again, until it has passed its probation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from scheduler.core.attempts import DAY_MS
from scheduler.core.topology import Node
from scheduler.core.types import Health, NodeDecision, Policy, Window

FAILING = "jobs keep failing here"
FLAPPING = "keeps falling silent"
AGAIN = "jobs fail here again on probation"
STILL = "was set aside before it fell silent"
ON_PROBATION = "on probation"

MOST_FLAPS = 64
"""Silences that are remembered of a host."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a host that is heard may do, why, and when that has to be asked again."""

    decision: NodeDecision
    health: Health
    why: str = ""
    due_ms: int | None = None


def pardon_ms(node: Node) -> int:
    return node.intent.pardon_ms if node.intent is not None else 0


def failures(node: Node, now_ms: int) -> list[tuple[int, str]]:
    """The failures of the last day that nobody has pardoned, oldest first."""
    if node.decision is None:
        return []
    since = max(now_ms - DAY_MS, pardon_ms(node))
    return sorted(failure for failure in node.decision.failures if failure[0] > since)


def flap_score(node: Node, policy: Policy, now_ms: int) -> int:
    """How often the host was heard again after a silence, of late, that nobody has pardoned."""
    if node.decision is None:
        return 0
    return len(_recent(node.decision.flaps, node, policy, now_ms))


def counted(node: Node, decision: NodeDecision, policy: Policy, now_ms: int) -> NodeDecision:
    """The decision with one silence more, which is over now."""
    flaps = (*_recent(decision.flaps, node, policy, now_ms), now_ms)
    return replace(decision, flaps=flaps[-MOST_FLAPS:])


def needed(after: int, decision: NodeDecision, now_ms: int) -> int:
    """How many failures or silences set a host aside that is set aside after so many in good standing."""
    return (after + 1) // 2 if now_ms < decision.probation_ms else after


def standing(node: Node, decision: NodeDecision, policy: Policy, now_ms: int) -> Standing:
    """What a host that is heard may do from now on."""
    failed = failures(node, now_ms)
    if len({job for _, job in failed}) >= policy.quarantine_after:
        if decision.health is Health.READY:
            decision = replace(decision, relapses=decision.relapses + 1)
        return Standing(decision, Health.QUARANTINED, FAILING, failed[0][0] + DAY_MS)
    why = _offence(node, decision, policy, len({job for _, job in failed}), now_ms)
    if why is not None:
        span = Window(now_ms, now_ms + _length_ms(decision.relapses, policy))
        decision = replace(decision, quarantine=span, flaps=(), failures=(), relapses=decision.relapses + 1)
        return Standing(decision, Health.QUARANTINED, why, span.end_ms)
    span_before = decision.quarantine
    if span_before is not None and now_ms < span_before.end_ms and pardon_ms(node) < span_before.start_ms:
        why = decision.why if decision.health is Health.QUARANTINED else STILL
        return Standing(decision, Health.QUARANTINED, why, span_before.end_ms)
    return _free(node, decision, policy, now_ms)


def _offence(node: Node, decision: NodeDecision, policy: Policy, failing: int, now_ms: int) -> str | None:
    """What sets the host aside now, beside failures enough for one in good standing; None if nothing does."""
    flaps = len(_recent(decision.flaps, node, policy, now_ms))
    if policy.flap_after and flaps >= needed(policy.flap_after, decision, now_ms):
        return FLAPPING
    on_probation = pardon_ms(node) < now_ms < decision.probation_ms
    return AGAIN if on_probation and failing >= needed(policy.quarantine_after, decision, now_ms) else None


def _free(node: Node, decision: NodeDecision, policy: Policy, now_ms: int) -> Standing:
    """The host may work: its quarantine is over, if there was one, by time or by a person's word."""
    set_aside = decision.quarantine is not None or decision.health is Health.QUARANTINED
    since = decision.quarantine.start_ms if decision.quarantine is not None else decision.since_ms
    pardoned = 0 < pardon_ms(node) >= since
    if pardoned and (set_aside or decision.probation_ms):
        return Standing(replace(decision, quarantine=None, probation_ms=0, relapses=0, flaps=()), Health.READY)
    if set_aside:
        until = now_ms + _length_ms(max(0, decision.relapses - 1), policy)
        kept = replace(decision, quarantine=None, failures=(), flaps=(), probation_ms=until)
        return Standing(kept, Health.READY, ON_PROBATION, until)
    if decision.probation_ms > now_ms:
        return Standing(decision, Health.READY, ON_PROBATION, decision.probation_ms)
    if decision.probation_ms:
        decision = replace(decision, probation_ms=0, relapses=0)
    return Standing(decision, Health.READY)


def _length_ms(relapses: int, policy: Policy) -> int:
    return min(DAY_MS, policy.flap_quarantine_ms << min(relapses, 16))


def _recent(flaps: Iterable[int], node: Node, policy: Policy, now_ms: int) -> tuple[int, ...]:
    since = max(now_ms - policy.flap_window_ms, pardon_ms(node))
    return tuple(at for at in flaps if at > since)
