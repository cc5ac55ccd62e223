"""The demo's quota tree, as data: Research 40 %, Production 60 %, three teams under each, floors that add up."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from scheduler.core.types import QuotaNode, QuotaTree

EXAMPLE_TEAM = "research-foundation-models"
"""The team that examples/job.json belongs to."""

# Organisation: its share, and its teams with their share in it, whether they may submit P0, and after how many
# minutes of running one of their jobs may be stopped for another's share.
ORGANISATIONS: dict[str, tuple[int, dict[str, tuple[int, bool, int]]]] = {
    "research": (
        40,
        {
            EXAMPLE_TEAM: (50, False, 2),
            "research-multimodal": (30, False, 0),
            "research-robotics": (20, False, 0),
        },
    ),
    "production": (
        60,
        {
            "production-assistants": (45, True, 2),
            "production-ranking": (35, True, 0),
            "production-speech": (20, False, 0),
        },
    ),
}

GUARANTEED = Fraction(1, 2)
"""How much of a node's share is a floor; the rest is burst that whoever has work may use."""


def tree(gpus: Mapping[str, int]) -> QuotaTree:
    """The tree for a fleet with so many GPUs of each type. Floors are whole hosts of eight."""
    nodes: list[QuotaNode] = []
    for organisation, (share, teams) in ORGANISATIONS.items():
        below = [
            QuotaNode(
                name=team,
                parent=organisation,
                share=Fraction(weight),
                floor=_floor(gpus, Fraction(share, 100) * Fraction(weight, 100)),
                min_runtime_ms=minutes * 60_000,
                p0=p0,
            )
            for team, (weight, p0, minutes) in teams.items()
        ]
        floor = {kind: sum(node.floor.get(kind, 0) for node in below) for kind in gpus}
        nodes.append(QuotaNode(name=organisation, share=Fraction(share), floor=floor, p0=organisation == "production"))
        nodes += below
    return QuotaTree(nodes=tuple(nodes))


def teams() -> list[str]:
    return [team for _, below in ORGANISATIONS.values() for team in below]


def _floor(gpus: Mapping[str, int], part: Fraction) -> dict[str, int]:
    return {kind: int(count * part * GUARANTEED) // 8 * 8 for kind, count in gpus.items()}
