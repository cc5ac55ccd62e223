"""Takes in what the ranks of a node have written: who may, what of it is new, the object, the index.

Object storage is spoken to between two short transactions, with no connection to the database held meanwhile. Objects
are never changed, so whatever crashes or races leaves at worst one that no index names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog
from django.db import transaction
from django.db.models import QuerySet

from nodes.protocol import LogPiece, LogState, LogTaken
from scheduler.models import RankLog
from scheduler.objects import ObjectsUnavailable
from scheduler.ranklogs.archive import Archive, Log
from scheduler.ranklogs.pieces import Fit, Piece, fit, go_on, put
from scheduler.ranklogs.seats import SeatBook, newest_attempts

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Incoming:
    """A piece on its way. ``state`` and ``why`` where it is not taken; ``new`` what of it is."""

    piece: LogPiece
    log: Log
    state: LogState = LogState.TAKEN
    why: str = ""
    new: Fit | None = None

    def answer(self, pieces: Sequence[Piece]) -> LogTaken:
        next_, kept = go_on(pieces)
        return LogTaken(self.log.job, self.log.attempt, self.log.rank, next_, kept, self.state, self.why)


class Desk:
    """Where agents hand in logs. Threads may share it.

    Args:
        limit: bytes that are kept of a rank's log.
        release: gives the thread's connection to the database back.
    """

    def __init__(self, archive: Archive, limit: int, release: Callable[[], object]) -> None:
        self._archive = archive
        self._limit = limit
        self._release = release
        self._book = SeatBook()

    def take(self, node: str, pieces: Sequence[LogPiece], now: datetime) -> tuple[list[LogTaken], set[Log]]:
        """Keep what is new in these pieces; answers what became of each, and whose logs have grown.

        Raises:
            ObjectsUnavailable, DatabaseError: some may be kept; all may be sent again.
        """
        incoming = [_Incoming(piece, Log(piece.job, piece.attempt, piece.rank)) for piece in pieces]
        try:
            self._admit(node, incoming)
            rows = _rows(_taken(incoming), RankLog.objects.all())
            known = {of: _pieces(row) for of, row in rows.items()}
            self._release()
            self._store(incoming, known)
            answers, dropped = self._enter(incoming, _taken(incoming) - rows.keys(), now)
        finally:
            self._release()
        self._drop(dropped)
        return answers, {one.log for one in incoming if one.new is not None or one.piece.over}

    def _admit(self, node: str, incoming: list[_Incoming]) -> None:
        """Say of each piece whether this node may write it."""
        seats = self._book.find({(one.log.job, one.log.attempt) for one in incoming})
        unknown = {one.log.job for one in incoming if (one.log.job, one.log.attempt) not in seats}
        newest = newest_attempts(unknown) if unknown else {}
        for one in incoming:
            sits = seats.get((one.log.job, one.log.attempt))
            if sits is not None:
                if one.log.rank not in sits.get(node, ()):
                    one.state, one.why = LogState.REFUSED, f"rank {one.log.rank} does not sit on {node}"
            elif one.log.job not in newest:
                one.state, one.why = LogState.REFUSED, "there is no such job"
            elif one.log.attempt <= newest[one.log.job]:
                one.state, one.why = LogState.REFUSED, "there was no such attempt"
            else:
                one.state, one.why = LogState.LATER, "the attempt is not recorded yet"

    def _store(self, incoming: list[_Incoming], known: dict[Log, list[Piece]]) -> None:
        new: list[tuple[Log, Piece, bytes]] = []
        for one in incoming:
            if one.state is not LogState.TAKEN:
                continue
            start, data = one.piece.start, one.piece.data
            pieces = known.setdefault(one.log, [])
            one.new = fit(pieces, start, start + len(data))
            if one.new is not None:
                new.append((one.log, (one.new.start, one.new.end), data[one.new.start - start :]))
                known[one.log], _ = put(pieces, one.new, self._limit)
        self._archive.put(new)

    def _enter(
        self, incoming: list[_Incoming], missing: set[Log], now: datetime
    ) -> tuple[list[LogTaken], list[tuple[Log, Piece]]]:
        """Write the index, in which some are ``missing``; answers what became of each piece, and the objects that
        nothing names any more."""
        dropped: list[tuple[Log, Piece]] = []
        answers = []
        with transaction.atomic():
            rows = _locked(_taken(incoming), missing, now)
            for one in incoming:
                row = rows.get(one.log)
                if row is not None:
                    dropped += [(one.log, piece) for piece in _extend(row, one, self._limit, now)]
                answers.append(one.answer(_pieces(row) if row is not None else ()))
            _save(rows.values())
        return answers, dropped

    def _drop(self, dropped: list[tuple[Log, Piece]]) -> None:
        try:
            if dropped:
                self._archive.drop(dropped)
        except ObjectsUnavailable as error:
            # Nothing names them any more; they go with the job's logs.
            log.warning("pieces of logs are left behind", pieces=len(dropped), error=str(error))


def _taken(incoming: list[_Incoming]) -> set[Log]:
    return {one.log for one in incoming if one.state is LogState.TAKEN}


def _rows(wanted: set[Log], found: QuerySet[RankLog]) -> dict[Log, RankLog]:
    """The rows of these logs out of ``found``, in the order in which everybody locks them."""
    near = found.filter(
        job_id__in={of.job for of in wanted},
        attempt__in={of.attempt for of in wanted},
        rank__in={of.rank for of in wanted},
    )
    rows = {Log(row.job_id, row.attempt, row.rank): row for row in near.order_by("pk")}
    return {of: row for of, row in rows.items() if of in wanted}


def _locked(wanted: set[Log], missing: set[Log], now: datetime) -> dict[Log, RankLog]:
    """The rows of these logs, locked; made where there are none."""
    fresh = [RankLog(job_id=of.job, attempt=of.attempt, rank=of.rank, updated_at=now) for of in missing]
    RankLog.objects.bulk_create(fresh, ignore_conflicts=True)
    return _rows(wanted, RankLog.objects.select_for_update())


def _save(rows: Iterable[RankLog]) -> None:
    """Write the rows, which are there: as an insert that always conflicts, in a fifth of ``bulk_update``'s time."""
    RankLog.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["id"],
        update_fields=["pieces", "size", "kept", "over", "updated_at"],
    )


def _pieces(row: RankLog) -> list[Piece]:
    return [(start, end) for start, end in row.pieces]


def _extend(row: RankLog, one: _Incoming, limit: int, now: datetime) -> list[Piece]:
    """Enter what was stored of the piece; answers the objects that go for it: its own, where another was quicker."""
    row.over = row.over or one.piece.over
    if one.new is None:
        return []
    stored = (one.new.start, one.new.end)
    pieces = _pieces(row)
    new = fit(pieces, *stored)
    if new is None or (new.start, new.end) != stored:
        return [] if stored in pieces else [stored]
    kept, gone = put(pieces, new, limit)
    row.pieces = kept
    row.size, row.kept, row.updated_at = kept[-1][1], sum(end - start for start, end in kept), now
    return [piece for piece in gone if piece != stored]
