"""The ranks of one attempt on this host: from the order to prepare to the last exit code.

``obey`` brings them to where an order wants them, as far as that is possible now, and looks how they are; ``report``
says so. Nothing is remembered that is not on disk as well (``gang.json`` and the ranks' directories): a gang that an
earlier life of the agent has begun is gone on with.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from nodes.agent import keeping
from nodes.agent.acknowledged import Acknowledgement, Saved
from nodes.agent.files import write_private
from nodes.agent.hindrance import told
from nodes.agent.keeping import Life, Rank
from nodes.agent.launcher import CannotPrepare, Launcher
from nodes.agent.rendezvous import Port, kept_again
from scheduler.core.types import Action, Assignment, GangReport, RankReport, RankState

log = structlog.get_logger(__name__)

FILE = "gang.json"
TRY_AGAIN_MS = 5_000
MOST_LEAD_MS = 5_000
"""How long before the end of the grace ranks that have not saved are asked to end; a tenth of the grace at most."""
END_WITHIN_MS = 15_000
"""What a rank that was asked to end gets for it, if the deadline leaves that much, and ``END_AT_LEAST_MS`` anyway."""
END_AT_LEAST_MS = 2_000
SKEW_MS = 1_000
"""By how much the leader's clock may be behind ours: an end by deadline is not told before it counts as one there."""
COARSE_MS = 10
"""File times come from a clock that moves in steps."""
ENGINE_FAILED = 125
"""What docker and podman exit with when the container did not come to run."""


class Record(msgspec.Struct):
    """``gang.json``: the newest order, and when what was asked of the ranks; wall time in milliseconds.

    ``ready``: prepared. ``released_ms``: since when they run. ``port``: of the rendezvous, if rank 0 is here.
    ``save_ms``: of the last checkpoint beside the work that was asked for.
    """

    assignment: Assignment
    ready: bool = False
    port: int = 0
    released_ms: int | None = None
    save_asked_ms: int | None = None
    end_asked_ms: int | None = None
    save_ms: int = 0


class Gang:
    """One attempt's ranks here.

    Args:
        path: the attempt's directory.
        scratch: the one that its ranks work in.
    """

    def __init__(self, path: Path, scratch: Path, record: Record, launcher: Launcher) -> None:
        self.path = path
        self.scratch = scratch
        self.record = record
        self._launcher = launcher
        self.ranks = {rank: Rank(path / str(rank)) for rank in record.assignment.ranks}
        self._acknowledged = {number: Acknowledgement(rank.run_directory) for number, rank in self.ranks.items()}
        self._ended: dict[int, RankReport] = {}
        self._saved: Saved | None = None
        self._killed = False
        self._port = kept_again(record.port) if record.port and record.released_ms is None else None
        self._try_again_ms = 0
        self._hindrance = ""
        self._report: GangReport | None = None

    @classmethod
    def found(cls, path: Path, scratch: Path, launcher: Launcher) -> Gang:
        """The gang that lies at ``path``.

        Raises:
            OSError, msgspec.MsgspecError: there is none, or its record cannot be read.
        """
        record = msgspec.json.decode((path / FILE).read_bytes(), type=Record)
        return cls(path, scratch, record, launcher)

    @property
    def assignment(self) -> Assignment:
        return self.record.assignment

    @property
    def key(self) -> tuple[str, int]:
        return self.assignment.job, self.assignment.attempt

    @property
    def released(self) -> bool:
        return self.record.released_ms is not None

    @property
    def living(self) -> bool:
        """Whether a rank may hold its GPU."""
        return self.released and len(self._ended) < len(self.ranks)

    def close(self) -> None:
        """The attempt is over: what is held for it is let go of."""
        self._let_go_of_the_port()

    def hindered(self, error: Exception) -> None:
        """Take note of what keeps the gang from being prepared; it is reported as long as that is not done."""
        self._hindrance = told(error)

    def has_ended(self, rank: int) -> bool:
        """Whether the rank writes no more."""
        return rank in self._ended

    # --- orders

    def obey(self, order: Assignment | None, now_ms: int, gpus_are_free: bool) -> None:
        """Do what can be done now of ``order``; None: the attempt is not to be here."""
        if order is None:
            self._kill()
        else:
            self._take(order)
            if not self.record.ready and gpus_are_free and order.action in (Action.PREPARE, Action.RUN):
                self._prepare(now_ms)
            self._act(order.action, now_ms)
            self._keep_deadlines(now_ms)
        self._look(now_ms)

    def _take(self, order: Assignment) -> None:
        if order != self.assignment:
            self.record.assignment = order
            self._keep()

    def _act(self, action: Action, now_ms: int) -> None:
        if action is Action.RUN and self.record.ready:
            self._run(now_ms)
        elif action is Action.CHECKPOINT and self.released:
            self._ask_to_save(now_ms)
        elif action is Action.STOP:
            self._ask_to_end(now_ms)

    def _prepare(self, now_ms: int) -> None:
        """Make everything that a start needs; what fails is tried again, until the leader has had enough of it."""
        if now_ms < self._try_again_ms:
            return
        try:
            self._make_directories()
            if not self._launcher.prepare(self.assignment):
                return
            if self.assignment.node_rank == 0 and self._port is None:
                self._port = Port()
                self.record.port = self._port.number
            self.record.ready = True
            self._keep()
            self._hindrance = ""
        except (OSError, CannotPrepare) as error:
            self._try_again_ms = now_ms + TRY_AGAIN_MS
            self.hindered(error)
            log.warning("cannot prepare", job=self.assignment.job, attempt=self.assignment.attempt, error=str(error))

    def _make_directories(self) -> None:
        self._keep()
        self.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        for rank in self.ranks.values():
            rank.prepare()

    def _run(self, now_ms: int) -> None:
        """Release the ranks, once. If they were asked to save, the stop has been taken back."""
        if self.record.released_ms is None:
            self.record.released_ms = now_ms
            self.record.save_ms = self.assignment.save_ms
            self._keep()
            self._let_go_of_the_port()
        elif self.assignment.save_ms > self.record.save_ms:
            self.record.save_ms = self.assignment.save_ms
            self._each_living(Rank.save)
            self._keep()
        elif self.record.save_asked_ms is not None and self.record.end_asked_ms is None:
            self.record.save_asked_ms = None
            self._keep()

    def _let_go_of_the_port(self) -> None:
        if self._port is not None:
            self._port.release()
            self._port = None

    def _ask_to_save(self, now_ms: int) -> None:
        if self.record.save_asked_ms is not None:
            return
        self.record.save_asked_ms = now_ms
        if self.assignment.spec.checkpoint is not None:
            self._each_living(Rank.save)
        self._keep()

    def _ask_to_end(self, now_ms: int) -> None:
        if self.record.end_asked_ms is None:
            self.record.end_asked_ms = now_ms
            self._keep()
            self._each_living(Rank.end)

    def _kill(self) -> None:
        if not self._killed:
            self._killed = True
            self._each_living(Rank.kill)

    def _each_living(self, ask: Callable[[Rank], None]) -> None:
        for number, rank in self.ranks.items():
            if self.released and number not in self._ended:
                ask(rank)

    # --- deadlines, by our own clock

    def _keep_deadlines(self, now_ms: int) -> None:
        ask_ms, kill_ms = self._ask_to_end_ms(), self._kill_ms()
        if ask_ms is not None and now_ms >= ask_ms:
            self._ask_to_end(now_ms)
            kill_ms = self._kill_ms()
        if kill_ms is not None and now_ms >= kill_ms:
            self._kill()

    def _ask_to_end_ms(self) -> int | None:
        """When ranks that are saving have to be asked to end."""
        asked_ms, deadline_ms = self.record.save_asked_ms, self.assignment.deadline_ms
        if self.assignment.action is not Action.CHECKPOINT or asked_ms is None or deadline_ms is None:
            return None
        return deadline_ms - min(MOST_LEAD_MS, max(0, deadline_ms - asked_ms) // 10)

    def _kill_ms(self) -> int | None:
        asked_ms, deadline_ms = self.record.end_asked_ms, self.assignment.deadline_ms
        if asked_ms is None:
            return None
        enough_ms = asked_ms + END_WITHIN_MS
        return max(enough_ms if deadline_ms is None else min(deadline_ms, enough_ms), asked_ms + END_AT_LEAST_MS)

    def wake_ms(self, now_ms: int) -> int | None:
        """When the next thing has to be done by the clock alone."""
        moments = [self._ask_to_end_ms() if self.record.end_asked_ms is None else None]
        moments.append(None if self._killed else self._kill_ms())
        if not self.record.ready:
            moments.append(self._try_again_ms)
        return min((moment for moment in moments if moment is not None and moment > now_ms), default=None)

    # --- what has become of the ranks

    def _look(self, now_ms: int) -> None:
        for number, rank in self.ranks.items():
            if number in self._ended:
                continue
            if self.released:
                self._look_at(number, rank, now_ms)
            elif self._killed or self.record.end_asked_ms is not None:
                self._ended[number] = RankReport(number, RankState.STOPPED)
        if self.released:
            self._look_for_checkpoints()

    def _look_at(self, number: int, rank: Rank, now_ms: int) -> None:
        found = rank.look()
        if found.life is Life.LOST:
            rank.sweep()
            log.error("a rank is gone with its keeper", job=self.assignment.job, rank=number)
            self._ended[number] = RankReport(number, RankState.STOPPED)
        elif found.life is Life.ABSENT:
            self._start(number, rank)
        elif found.exit is not None and not self._too_early(found.exit, now_ms):
            self._ended[number] = _ended(number, found.exit)

    def _start(self, number: int, rank: Rank) -> None:
        """Start a rank that was released and has no keeper: now, or again where an agent died between two starts."""
        if self._killed or self.record.end_asked_ms is not None:
            rank.kill()  # marks it: no keeper begins any more
            self._ended[number] = RankReport(number, RankState.STOPPED)
            return
        at = self.assignment.ranks.index(number)
        try:
            rank.start(self._launcher.launch(self.assignment, at, rank, self.scratch))
        except OSError as error:
            log.warning("cannot start a rank", job=self.assignment.job, rank=number, error=str(error))

    def _too_early(self, ended: keeping.Exit, now_ms: int) -> bool:
        """Whether the leader would take this end, which the agent asked for at the end of the grace, for a loss."""
        deadline_ms = self.assignment.deadline_ms
        if not ended.asked or self.assignment.action is not Action.CHECKPOINT or deadline_ms is None:
            return False
        return now_ms < deadline_ms + SKEW_MS

    def _look_for_checkpoints(self) -> None:
        """Take in the newest of what any rank has told: a manifest stands for the whole gang."""
        for acknowledged in self._acknowledged.values():
            saved = acknowledged.look()
            if saved is not None and (self._saved is None or _age(saved) > _age(self._saved)):
                self._saved = self._first_told(saved)

    def _first_told(self, saved: Saved) -> Saved:
        """One checkpoint that each rank tells of in its turn is reported once; a later word may acknowledge it."""
        first = self._saved
        if first is None or first.manifest != saved.manifest:
            return saved
        return msgspec.structs.replace(first, written_ms=saved.written_ms)

    # --- what is said of them

    def report(self) -> GangReport:
        """The gang as it was last seen; the same object while nothing changed."""
        ranks = tuple(self._ended.get(number, RankReport(number, self._state())) for number in self.ranks)
        saved = self._saved
        report = GangReport(
            job=self.assignment.job,
            attempt=self.assignment.attempt,
            ranks=ranks,
            saved_work_ms=self._saved_work_ms(),
            saved_at_ms=saved.saved_at_ms if saved else 0,
            acknowledged=self._has_acknowledged(),
            manifest=saved.manifest if saved else "",
            step=saved.step if saved else 0,
            port=self.record.port,
            hindrance="" if self.record.ready else self._hindrance,
        )
        if report != self._report:
            self._report = report
        return self._report

    def _state(self) -> RankState:
        if self.released:
            return RankState.RUNNING
        return RankState.READY if self.record.ready else RankState.PREPARING

    def _saved_work_ms(self) -> int:
        """What the attempt started from and the time from release to checkpoint; less if the program says so."""
        base_ms, since_ms = self.assignment.saved_work_ms, self.record.released_ms
        if self._saved is None or since_ms is None:
            return base_ms
        work_ms = base_ms + max(0, self._saved.saved_at_ms - since_ms)
        return work_ms if self._saved.work_ms is None else min(work_ms, self._saved.work_ms)

    def _has_acknowledged(self) -> bool:
        asked_ms = self.record.save_asked_ms
        return asked_ms is not None and self._saved is not None and self._saved.written_ms + COARSE_MS >= asked_ms

    def _keep(self) -> None:
        """Write the record down.

        Raises:
            OSError: it cannot be written.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self.path / FILE, msgspec.json.encode(self.record))


def _age(saved: Saved) -> tuple[int, int]:
    return saved.saved_at_ms, saved.written_ms


def _ended(number: int, ended: keeping.Exit) -> RankReport:
    """How the end of a rank is reported: whose doing was it?"""
    if ended.asked or ended.code == ENGINE_FAILED:
        return RankReport(number, RankState.STOPPED)
    return RankReport(number, RankState.SUCCEEDED if ended.code == 0 else RankState.FAILED, ended.code)
