"""The simulated executor: what the ranks of a node would do, as a pure state machine in the caller's time.

The live simulated fleet, the scenario runner and the trace simulator drive this one. It is level-triggered like a real
agent: ``step`` is told what should be and answers what is, and when something will happen by itself. Nothing here
reads a clock; a step may come late, what happened in between is computed at the moment at which it happened.

A gang's work is one figure for the whole gang: it runs while its ranks do, stands still while the checkpoint of a stop
is written, and goes on from the checkpoint that an attempt is assigned. Each node computes it from the moment at which
its ranks were released, so the nodes of a gang agree as far as their clocks do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from scheduler.core.types import Action, Assignment, GangReport, RankReport, RankState


class Step(StrEnum):
    """What a rank may fail to finish."""

    START = "start"
    CHECKPOINT = "checkpoint"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the ranks of a job behave.

    ``runtime_ms`` is the useful work that the job needs over all attempts, None for one that runs until it is stopped.
    ``start_takes_ms`` is the time from the order to prepare to READY. Steps in ``stalled`` are never finished; a
    stalled stop survives the kill as well, like a process that hangs in a driver.
    """

    runtime_ms: int | None = None
    start_takes_ms: int = 0
    exit_code: int = 0
    stalled: frozenset[Step] = frozenset()


RUNTIME_VARIABLE = "GANGWAY_SIM_RUNTIME_S"
START_VARIABLE = "GANGWAY_SIM_START_S"
EXIT_VARIABLE = "GANGWAY_SIM_EXIT_CODE"
STALLED_VARIABLE = "GANGWAY_SIM_STALLED"


def behaviour_from_environment(environment: Mapping[str, str]) -> Behaviour:
    """The behaviour that a job of the live simulated fleet asks for by its variables; by default it runs until stopped.

    ``GANGWAY_SIM_RUNTIME_S`` and ``GANGWAY_SIM_START_S`` are seconds, ``GANGWAY_SIM_STALLED`` a comma-separated list.

    Raises:
        ValueError: a variable is not what it should be.
    """
    runtime = environment.get(RUNTIME_VARIABLE)
    return Behaviour(
        runtime_ms=None if runtime is None else _milliseconds(runtime),
        start_takes_ms=_milliseconds(environment.get(START_VARIABLE, "0")),
        exit_code=int(environment.get(EXIT_VARIABLE, "0")),
        stalled=frozenset(Step(step) for step in environment.get(STALLED_VARIABLE, "").split(",") if step),
    )


def _milliseconds(seconds: str) -> int:
    value = round(float(seconds) * 1000)
    if value < 0:
        raise ValueError(f"{seconds} seconds")
    return value


@dataclass(frozen=True, slots=True)
class Stepped:
    """What a step found. ``wake_ms`` is when the next thing happens by itself, None if only an order changes anything.

    ``gangs`` is the same object as that of the step before where nothing changed. ``watch``: what is here may change at
    any moment without an order, so it has to be looked at while a request to the control plane waits.
    """

    gangs: tuple[GangReport, ...]
    wake_ms: int | None
    watch: bool = False


@lru_cache(maxsize=4096)
def _alike(ranks: tuple[int, ...], state: RankState) -> tuple[RankReport, ...]:
    return tuple(RankReport(rank, state) for rank in ranks)


class _Gang:
    """The ranks of one attempt on this node."""

    __slots__ = (
        "acknowledged",
        "assignment",
        "base_ms",
        "begun_ms",
        "behaviour",
        "checkpoint_asked_ms",
        "due_ms",
        "ended",
        "frozen_ms",
        "report",
        "run_from_ms",
        "save_asked_ms",
        "saved_at_ms",
        "saved_work_ms",
        "state",
    )

    def __init__(self, assignment: Assignment, behaviour: Behaviour) -> None:
        self.assignment = assignment
        self.behaviour = behaviour
        self.due_ms: int | None = None
        """When something happens by itself next."""
        self.state = RankState.PREPARING
        self.begun_ms: int | None = None
        """Since when it prepares; None while earlier ranks still live on its GPUs."""
        self.run_from_ms = 0
        self.base_ms = assignment.saved_work_ms
        """The useful work done when the ranks were released, or when work went on after a stop that was taken back."""
        self.checkpoint_asked_ms: int | None = None
        self.save_asked_ms: int | None = None
        """When a checkpoint was asked for beside the work that is not complete yet."""
        self.frozen_ms: int | None = None
        """The moment at which work came to a stand for the checkpoint of a stop."""
        self.saved_work_ms = assignment.saved_work_ms
        self.saved_at_ms = 0
        self.acknowledged = False
        self.ended: dict[int, RankReport] = {}
        self.report: GangReport | None = None

    @property
    def alive(self) -> bool:
        return len(self.ended) < len(self.assignment.ranks)

    # --- orders

    def obey(self, assignment: Assignment, now_ms: int) -> None:
        """Take the newest order for this attempt."""
        if assignment.save_ms > self.assignment.save_ms and self.state is RankState.RUNNING:
            self.save_asked_ms = now_ms
        self.assignment = assignment
        action = assignment.action
        if action is Action.RUN:
            self._run(now_ms)
        elif action is Action.CHECKPOINT and self.checkpoint_asked_ms is None:
            self.checkpoint_asked_ms = now_ms
            if self.state is RankState.RUNNING and assignment.spec.checkpoint is not None:
                self.frozen_ms = now_ms

    def _run(self, now_ms: int) -> None:
        if self.state is RankState.READY:
            self.state = RankState.RUNNING
            self.run_from_ms = now_ms
            self.report = None
        elif self.checkpoint_asked_ms is not None:
            self._resume_after_checkpoint(now_ms)

    def _resume_after_checkpoint(self, now_ms: int) -> None:
        """The stop was taken back: work goes on from where it stood."""
        if self.frozen_ms is not None:
            self.base_ms += self.frozen_ms - self.run_from_ms
            self.run_from_ms = now_ms
            self.frozen_ms = None
        self.checkpoint_asked_ms = None
        self.acknowledged = False
        self.report = None

    # --- time

    def advance(self, now_ms: int) -> None:
        """Let happen what happened until now."""
        behaviour = self.behaviour
        if self.state is RankState.PREPARING:
            ready_ms = self._ready_ms(behaviour)
            if ready_ms is not None and ready_ms <= now_ms:
                self.state = RankState.READY
                self.report = None
        if self.state is RankState.RUNNING and self.alive:
            self._advance_work(behaviour, now_ms)
        if self.alive and self._must_go(now_ms) and Step.STOP not in behaviour.stalled:
            self.kill()

    def _advance_work(self, behaviour: Behaviour, now_ms: int) -> None:
        finish_ms = self._finish_ms(behaviour)
        if Step.CHECKPOINT not in behaviour.stalled:
            self._save_periodically(now_ms if finish_ms is None else min(now_ms, finish_ms))
            self._save_as_asked(now_ms)
            acknowledge_ms = self._acknowledge_ms(behaviour)
            if acknowledge_ms is not None and acknowledge_ms <= now_ms:
                self._acknowledge(acknowledge_ms)
        if finish_ms is not None and finish_ms <= now_ms:
            for rank in self.assignment.ranks:
                self.exit(rank, behaviour.exit_code)

    def _save_periodically(self, now_ms: int) -> None:
        """Complete the periodic checkpoints. They are written beside the work, and one begun before a stop goes on."""
        checkpoint = self.assignment.spec.checkpoint
        if checkpoint is None or checkpoint.every_ms <= 0:
            return
        complete = (now_ms - checkpoint.takes_ms - self.run_from_ms) // checkpoint.every_ms
        if self.frozen_ms is not None:
            complete = min(complete, (self.frozen_ms - self.run_from_ms) // checkpoint.every_ms)
        work_ms = complete * checkpoint.every_ms
        if complete > 0 and self.base_ms + work_ms > self.saved_work_ms:
            self.saved_work_ms = self.base_ms + work_ms
            self.saved_at_ms = self.run_from_ms + work_ms + checkpoint.takes_ms
            self.report = None

    def _save_as_asked(self, now_ms: int) -> None:
        """Complete the checkpoint that was asked for beside the work; the one of a stop makes up for it."""
        done_ms, asked_ms = self._as_asked_ms(), self.save_asked_ms
        if done_ms is None or asked_ms is None or done_ms > now_ms:
            return
        self.save_asked_ms = None
        work_ms = self.base_ms + asked_ms - self.run_from_ms
        if work_ms > self.saved_work_ms:
            self.saved_work_ms, self.saved_at_ms = work_ms, done_ms
            self.report = None

    def _as_asked_ms(self) -> int | None:
        checkpoint = self.assignment.spec.checkpoint
        if self.save_asked_ms is None or checkpoint is None or self.frozen_ms is not None:
            return None
        return self.save_asked_ms + checkpoint.takes_ms

    def _acknowledge(self, at_ms: int) -> None:
        if self.frozen_ms is not None:
            self.saved_work_ms = self.base_ms + self.frozen_ms - self.run_from_ms
            self.saved_at_ms = at_ms
        self.acknowledged = True
        self.report = None

    def exit(self, rank: int, code: int) -> None:
        """A rank ends by itself; one that has ended already stays as it is."""
        if rank not in self.ended:
            state = RankState.SUCCEEDED if code == 0 else RankState.FAILED
            self.ended[rank] = RankReport(rank, state, code)
            self.report = None

    def kill(self) -> None:
        for rank in self.assignment.ranks:
            if rank not in self.ended:
                self.ended[rank] = RankReport(rank, RankState.STOPPED)
        self.report = None

    def _must_go(self, now_ms: int) -> bool:
        if self.assignment.action is Action.STOP:
            return True
        deadline_ms = self.assignment.deadline_ms
        return self.assignment.action is Action.CHECKPOINT and deadline_ms is not None and deadline_ms <= now_ms

    # --- when the next thing happens

    def _ready_ms(self, behaviour: Behaviour) -> int | None:
        if self.begun_ms is None or Step.START in behaviour.stalled:
            return None
        return self.begun_ms + behaviour.start_takes_ms

    def _finish_ms(self, behaviour: Behaviour) -> int | None:
        """When the work is done; None while it stands still or has no end."""
        if behaviour.runtime_ms is None or self.frozen_ms is not None:
            return None
        return self.run_from_ms + max(0, behaviour.runtime_ms - self.base_ms)

    def _acknowledge_ms(self, behaviour: Behaviour) -> int | None:
        """When the checkpoint of a stop is complete; None if there is none to come."""
        checkpoint = self.assignment.spec.checkpoint
        if self.acknowledged or self.frozen_ms is None or checkpoint is None or Step.CHECKPOINT in behaviour.stalled:
            return None
        return self.frozen_ms + checkpoint.takes_ms

    def _next_save_ms(self, behaviour: Behaviour, now_ms: int) -> int | None:
        checkpoint = self.assignment.spec.checkpoint
        if checkpoint is None or checkpoint.every_ms <= 0 or Step.CHECKPOINT in behaviour.stalled:
            return None
        complete = max(0, (now_ms - checkpoint.takes_ms - self.run_from_ms) // checkpoint.every_ms)
        begins_ms = self.run_from_ms + (complete + 1) * checkpoint.every_ms
        if self.frozen_ms is not None and begins_ms > self.frozen_ms:
            return None
        return begins_ms + checkpoint.takes_ms

    def schedule(self, now_ms: int, saves: bool) -> None:
        """Set ``due_ms``; ``saves``: the periodic checkpoints count among what happens."""
        moments = [moment for moment in self._moments(now_ms, saves) if moment is not None and moment > now_ms]
        self.due_ms = min(moments, default=None)

    def _moments(self, now_ms: int, saves: bool) -> Iterable[int | None]:
        if not self.alive:
            return
        behaviour = self.behaviour
        if self.state is RankState.PREPARING:
            yield self._ready_ms(behaviour)
        elif self.state is RankState.RUNNING:
            yield self._finish_ms(behaviour)
            yield self._acknowledge_ms(behaviour)
            yield self._as_asked_ms()
            if saves:
                yield self._next_save_ms(behaviour, now_ms)
        if self.assignment.action is Action.CHECKPOINT and Step.STOP not in behaviour.stalled:
            yield self.assignment.deadline_ms

    # --- what the agent says of it

    def reported(self) -> GangReport:
        if self.report is None:
            ranks = self.assignment.ranks
            states = _alike(ranks, self.state)
            if self.ended:
                states = tuple(self.ended.get(report.rank, report) for report in states)
            self.report = GangReport(
                self.assignment.job,
                self.assignment.attempt,
                states,
                self.saved_work_ms,
                self.saved_at_ms,
                self.acknowledged,
            )
        return self.report


class SimulatedExecutor:
    """The gangs of one node.

    Args:
        behaviour: how the job of an assignment behaves; asked in each step, another answer counts from then on.
        announce_checkpoints: wake up for each periodic checkpoint. Without it they are counted all the same, and told
            with the next report.
    """

    def __init__(self, behaviour: Callable[[Assignment], Behaviour], announce_checkpoints: bool = True) -> None:
        self._behaviour = behaviour
        self._announce = announce_checkpoints
        self._gangs: dict[tuple[str, int], _Gang] = {}
        self._reported: tuple[GangReport, ...] = ()

    def step(self, assignments: Sequence[Assignment], now_ms: int) -> Stepped:
        """Obey the assignments, let time pass until now, and say what is.

        An attempt that is held and not assigned is killed and, once its ranks have ended, no longer reported.
        """
        for gang in self._gangs.values():
            self._pass_time(gang, now_ms)
        self._drop({(assignment.job, assignment.attempt) for assignment in assignments})
        for assignment in assignments:
            self._obey(assignment, now_ms)
        return Stepped(self._reports(), min(self._dues(), default=None))

    def gpu_states(self) -> dict[int, RankState]:
        """What the ranks on this node's GPUs do, by GPU; those without a living rank are left out."""
        return {
            gpu: gang.state
            for gang in self._gangs.values()
            if gang.begun_ms is not None
            for rank, gpu in zip(gang.assignment.ranks, gang.assignment.gpus, strict=True)
            if rank not in gang.ended
        }

    def holder(self, gpu: int) -> tuple[str, int] | None:
        """The job and attempt that has the GPU; None where none has."""
        for key, gang in self._gangs.items():
            if gang.alive and gang.begun_ms is not None and gpu in gang.assignment.gpus:
                return key
        return None

    def exit_rank(self, job: str, attempt: int, rank: int, code: int) -> bool:
        """Let a living rank end by itself with ``code``; False if there is none such here."""
        gang = self._gangs.get((job, attempt))
        if gang is None or rank not in gang.assignment.ranks or rank in gang.ended:
            return False
        gang.exit(rank, code)
        if not gang.alive:
            gang.due_ms = None
        return True

    def _pass_time(self, gang: _Gang, now_ms: int) -> None:
        """Let happen what is due, by the behaviour that held until now."""
        behaviour = self._behaviour(gang.assignment)
        changed = behaviour is not gang.behaviour and behaviour != gang.behaviour
        if changed or (gang.due_ms is not None and gang.due_ms <= now_ms):
            gang.advance(now_ms)
            gang.behaviour = behaviour
            gang.schedule(now_ms, self._announce)

    def _obey(self, assignment: Assignment, now_ms: int) -> None:
        """Take an order, of an attempt that is new here or one that is held."""
        key = (assignment.job, assignment.attempt)
        gang = self._gangs.get(key)
        if gang is None:
            gang = self._gangs[key] = _Gang(assignment, self._behaviour(assignment))
        elif gang.begun_ms is not None and (gang.assignment is assignment or gang.assignment == assignment):
            return
        if gang.begun_ms is None and self._gpus_are_free(gang):
            gang.begun_ms = now_ms
        gang.advance(now_ms)
        gang.obey(assignment, now_ms)
        gang.advance(now_ms)
        gang.schedule(now_ms, self._announce)

    def _drop(self, wanted: set[tuple[str, int]]) -> None:
        for attempt in [attempt for attempt in self._gangs if attempt not in wanted]:
            gang = self._gangs[attempt]
            if not gang.alive or Step.STOP not in gang.behaviour.stalled:
                del self._gangs[attempt]

    def _gpus_are_free(self, newcomer: _Gang) -> bool:
        """Whether no rank of an earlier attempt lives on the newcomer's GPUs."""
        wanted = newcomer.assignment.gpus
        return not any(
            gang.begun_ms is not None and gang.alive and not set(wanted).isdisjoint(gang.assignment.gpus)
            for gang in self._gangs.values()
            if gang is not newcomer
        )

    def _reports(self) -> tuple[GangReport, ...]:
        reports = tuple(gang.reported() for gang in self._gangs.values())
        if len(reports) != len(self._reported) or any(a is not b for a, b in zip(reports, self._reported, strict=True)):
            self._reported = reports
        return self._reported

    def _dues(self) -> Iterable[int]:
        return (gang.due_ms for gang in self._gangs.values() if gang.due_ms is not None)
