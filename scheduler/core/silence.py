"""Hosts that are not heard: suspected at once, given up after a while, and later where most of their rack is silent.

A switch that fails takes a whole rack's voice and no host's life. Where most of a rack falls silent together, that is
taken for the network's fault: its gangs stay where they are until it has lasted several times as long.
"""

from __future__ import annotations

from scheduler.core.draft import Draft
from scheduler.core.topology import Node, Rack
from scheduler.core.types import Health, NodeDecision

LOST = "no sign of life"
NETWORK = "most of its rack fell silent at once: taken for the network's fault"
TAKEN_AWAY = "taken away by its provider"


class Silences:
    """Who is silent, rack by rack, worked out once a plan."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._onsets: dict[Rack, tuple[list[int], int]] = {}

    def judged(self, node: Node, decision: NodeDecision) -> tuple[Health, str, int | None]:
        """The health of a node that is not heard, why, and when that has to be asked again."""
        now, report = self._draft.now_ms, node.report
        if decision.health is Health.DOWN:
            return Health.DOWN, decision.why, None
        if report is not None and report.gone_at_ms is not None and now >= report.gone_at_ms:
            return Health.DOWN, TAKEN_AWAY, None
        known = decision.health is Health.SUSPECT
        since = decision.since_ms if known else now
        network = (known and decision.why == NETWORK) or self._with_its_rack(node, since)
        lost_at = since + self._patience_ms(network)
        if known and now >= lost_at:
            return Health.DOWN, LOST, None
        return Health.SUSPECT, NETWORK if network else LOST, lost_at

    def _patience_ms(self, network: bool) -> int:
        policy = self._draft.policy
        return policy.heartbeat_timeout_ms * (max(1, policy.rack_patience) if network else 1)

    def _with_its_rack(self, node: Node, since_ms: int) -> bool:
        """Whether most of the hosts that lived in its rack fell silent at about the same time."""
        policy, rack = self._draft.policy, node.rack
        if rack is None or not policy.rack_from:
            return False
        if rack not in self._onsets:
            self._onsets[rack] = self._look_through(rack)
        onsets, living = self._onsets[rack]
        together = sum(abs(at - since_ms) <= policy.heartbeat_timeout_ms for at in onsets)
        return together >= policy.rack_from and 2 * together > living

    def _look_through(self, rack: Rack) -> tuple[list[int], int]:
        """When the hosts of the rack that are missed fell silent, and how many hosts there are with those."""
        now, onsets, living = self._draft.now_ms, [], 0
        for node in rack.nodes:
            if node.rack is not rack or node.health is Health.DOWN:
                continue
            gone = node.report is not None and node.report.gone_at_ms is not None
            never_heard = node.decision is None and node.report is None
            if gone or never_heard:
                continue
            living += 1
            if not node.alive:
                suspected = node.decision is not None and node.decision.health is Health.SUSPECT
                onsets.append(node.decision.since_ms if suspected and node.decision is not None else now)
        return onsets, living
