"""What repair moves, as a record to show and to agree to: for whom, off which hosts, at what price, for what gain."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from scheduler.core.types import AcceptedRepair


@dataclass(frozen=True, slots=True)
class Move:
    """One gang that is stopped and started elsewhere. ``price_ms`` is GPU-milliseconds: checkpoint and restart."""

    job: str
    team: str
    attempt: int
    gpus: int
    price_ms: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """Moves that let a waiting gang start. ``gain_ms`` is the GPU-milliseconds that it would wait longer without them,
    None where its start is unknown. ``id`` is the same as long as the proposal is."""

    job: str
    team: str
    gpus: int
    gpu_type: str
    nodes: tuple[str, ...]
    takes: tuple[int, ...]
    moves: tuple[Move, ...]
    gain_ms: int | None

    @property
    def price_ms(self) -> int:
        return sum(move.price_ms for move in self.moves)

    @property
    def id(self) -> str:
        moved = sorted((move.job, move.attempt) for move in self.moves)
        return f"{self.job}-{crc32(repr((moved, self.nodes, self.takes)).encode()):08x}"

    def accepted(self, until_ms: int) -> AcceptedRepair:
        """The wish to have it done, which stands until then."""
        moved = tuple((move.job, move.attempt) for move in self.moves)
        return AcceptedRepair(self.job, self.gpu_type, self.nodes, self.takes, moved, until_ms)
