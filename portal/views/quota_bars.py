"""The bars of the quota tree: lengths in thousandths of the bar, and the same in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.core.balance import Line

LENGTH = 1000


@dataclass(frozen=True, slots=True)
class Bar:
    """Where each part of the bar ends, from 0 to ``LENGTH``: held inside the floor, held of its own, held at all, and
    what it waits for on top; marks for floor and ceiling, None where there is none to see."""

    line: Line
    inside: int
    own: int
    held: int
    wanted: int
    floor: int | None
    ceiling: int | None
    words: str

    @property
    def beyond(self) -> int:
        """How long the borrowed part is."""
        return self.held - self.own


def bars(lines: Iterable[Line]) -> list[Bar]:
    """All to one scale, which the largest figure of any node sets; ceilings beyond it are off the bar."""
    found = list(lines)
    scale = max((max(line.held + line.waiting, line.right, line.floor) for line in found), default=0) or 1

    def length(gpus: int) -> int:
        return min(LENGTH, gpus * LENGTH // scale)

    return [
        Bar(
            line=line,
            inside=length(min(line.held, line.floor)),
            own=length(min(line.held, max(line.own, line.floor))),
            held=length(line.held),
            wanted=length(line.held + line.waiting),
            floor=length(line.floor) if line.floor else None,
            ceiling=length(line.ceiling) if line.ceiling is not None and line.ceiling <= scale else None,
            words=words(line),
        )
        for line in found
    ]


def words(line: Line) -> str:
    """One node and one GPU type in a sentence, for those who do not see the bar."""
    parts = [f"{line.node} holds {line.held} {line.gpu_type} GPUs"]
    if line.floor:
        parts.append(f"floor {line.floor}")
    parts.append(f"its own {line.right}")
    if line.burst:
        parts.append(f"{line.burst} above its floor")
    if line.borrowed:
        parts.append(f"{line.borrowed} borrowed")
    if line.waiting:
        parts.append(f"waits for {line.waiting} more")
    parts.append(f"ceiling {line.ceiling}" if line.ceiling is not None else "no ceiling")
    return ", ".join(parts)
