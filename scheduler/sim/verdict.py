"""Whether what was expected holds: each key of ``expect`` has one function, which also says what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from scheduler.core.forecast import forecast
from scheduler.core.fragmentation import largest_gang
from scheduler.core.scratch import records
from scheduler.core.types import HostState, Phase
from scheduler.sim.expectations import Expectation, Subject
from scheduler.sim.history import JobRecord
from scheduler.sim.world import World

Answer = tuple[bool, str]
"""Whether it holds, and what was found."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An expectation that did not hold, and what was found instead."""

    expectation: Expectation
    got: str


def judge(expectation: Expectation, world: World) -> Failure | None:
    """Compare every key of the expectation with the world as it is now; None if all hold."""
    wrong = [
        got
        for key, wanted in expectation.checks
        for holds, got in [_CHECKS[expectation.subject][key](world, expectation.names, wanted)]
        if not holds
    ]
    return Failure(expectation, "; ".join(wrong)) if wrong else None


def _equal(found: int, wanted: int) -> bool:
    return found == wanted


def _at_most(found: int, wanted: int) -> bool:
    return found <= wanted


def _at_least(found: int, wanted: int) -> bool:
    return found >= wanted


# --- one job


def _job(check: Callable[[World, JobRecord, Any], Answer]) -> Callable[[World, tuple[str, ...], Any], Answer]:
    def judged(world: World, names: tuple[str, ...], wanted: Any) -> Answer:
        record = world.history.jobs.get(names[0])
        return (False, "not submitted") if record is None else check(world, record, wanted)

    return judged


def _state_and_reason(record: JobRecord) -> str:
    return f"{record.state}: {record.reason}" if record.reason else record.state


def _job_state(_: World, record: JobRecord, wanted: tuple[str, ...]) -> Answer:
    return record.state in wanted, _state_and_reason(record)


def _job_reason(_: World, record: JobRecord, wanted: tuple[str, ...]) -> Answer:
    waits = record.state in (Phase.PENDING, "REJECTED")
    return waits and record.reason in wanted, _state_and_reason(record)


def _gpus(_: World, record: JobRecord, wanted: int) -> Answer:
    found = sum(len(gpus) for gpus in record.held.values())
    return found == wanted, f"{found} GPUs"


def _domains(kind: str, of: Callable[[World, str], Any]) -> Callable[[World, JobRecord, int], Answer]:
    def check(world: World, record: JobRecord, wanted: int) -> Answer:
        found = len({of(world, host) for host in record.held})
        return found == wanted, f"{found} {kind}"

    return check


def _on(_: World, record: JobRecord, wanted: tuple[str, ...]) -> Answer:
    return bool(record.held) and set(record.held) <= set(wanted), _where(record)


def _not_on(_: World, record: JobRecord, wanted: tuple[str, ...]) -> Answer:
    return set(record.held).isdisjoint(wanted), _where(record)


def _where(record: JobRecord) -> str:
    return f"on {', '.join(record.held)}" if record.held else f"{record.state}, on no host"


def _moment(world: World, at_ms: int | None, what: str) -> str:
    return f"not {what}" if at_ms is None else f"{what} at {world.log.seconds(at_ms):g}s"


def _started_by(world: World, record: JobRecord, wanted: int) -> Answer:
    found = record.first_started_ms
    return found is not None and found - world.setting.start_ms <= wanted, _moment(world, found, "started")


def _not_started_before(world: World, record: JobRecord, wanted: int) -> Answer:
    found = record.first_started_ms
    return found is None or found - world.setting.start_ms >= wanted, _moment(world, found, "started")


def _ended_by(world: World, record: JobRecord, wanted: int) -> Answer:
    found = record.ended_ms
    return found is not None and found - world.setting.start_ms <= wanted, _moment(world, found, "ended")


def _stops(_: World, record: JobRecord, wanted: int) -> Answer:
    return record.stops == wanted, f"{record.stops} stops"


def _restarts(_: World, record: JobRecord, wanted: int) -> Answer:
    return record.restarts == wanted, f"{record.restarts} restarts"


def _stop_cause(_: World, record: JobRecord, wanted: tuple[str, ...]) -> Answer:
    return record.stop_cause in wanted, f"last stopped by {record.stop_cause}"


def _lost_work(_: World, record: JobRecord, wanted: int) -> Answer:
    return record.lost_ms <= wanted, f"{record.lost_ms / 1000:g}s of work lost"


def _eta(compare: Callable[[int, int], bool]) -> Callable[[World, JobRecord, int], Answer]:
    def check(world: World, record: JobRecord, wanted: int) -> Answer:
        start_ms = _expected_ms(world, record.spec.id)
        if start_ms is None:
            return False, f"no expected start; {_state_and_reason(record)}"
        found = max(0, start_ms - world.clock())
        return compare(found, wanted), f"expected to start in {found / 1000:g}s"

    return check


def _expected_ms(world: World, job: str) -> int | None:
    """When a waiting job is planned to start: as it was promised, else as the plan has it when rolled forward."""
    snapshot = world.snapshot()
    held = next((hold for hold in snapshot.reservations.held if hold.job == job), None)
    if held is not None:
        return held.start_ms
    return forecast(replace(records(snapshot), now_ms=world.clock()), world.setting.policy).starts.get(job)


# --- several jobs


def _jobs_running(compare: Callable[[int, int], bool]) -> Callable[[World, tuple[str, ...], int], Answer]:
    def check(world: World, names: tuple[str, ...], wanted: int) -> Answer:
        found = sum(_state(world, name) == Phase.RUNNING for name in names)
        return compare(found, wanted), f"{found} running"

    return check


def _jobs_all(world: World, names: tuple[str, ...], wanted: tuple[str, ...]) -> Answer:
    others = [f"{name} {_state(world, name)}" for name in names if _state(world, name) not in wanted]
    return not others, ", ".join(others)


def _state(world: World, name: str) -> str:
    record = world.history.jobs.get(name)
    return "not submitted" if record is None else record.state


# --- teams, hosts, the cluster


def _team_gpus(compare: Callable[[int, int], bool]) -> Callable[[World, tuple[str, ...], int], Answer]:
    def check(world: World, names: tuple[str, ...], wanted: int) -> Answer:
        found = sum(record.spec.gpus for record in world.history.holding() if names[0] in world.path(record.spec.team))
        return compare(found, wanted), f"{found} GPUs charged"

    return check


def _host_state(world: World, names: tuple[str, ...], wanted: tuple[str, ...]) -> Answer:
    found = world.host_state(names[0])
    return found in wanted, found


def _idle_gpus(compare: Callable[[int, int], bool]) -> Callable[[World, tuple[str, ...], int], Answer]:
    def check(world: World, _: tuple[str, ...], wanted: int) -> Answer:
        found = sum(_idle_on(world))
        return compare(found, wanted), f"{found} GPUs idle"

    return check


def _idle_on(world: World) -> Iterable[int]:
    held: dict[str, set[int]] = {}
    for record in world.history.holding():
        for host, gpus in record.held.items():
            held.setdefault(host, set()).update(gpus)
    for host, node in world.nodes.items():
        if world.host_state(host) == HostState.READY:
            yield node.gpus - len(held.get(host, set()) | world.agents[host].faulty)


def _stops_in_all(compare: Callable[[int, int], bool]) -> Callable[[World, tuple[str, ...], int], Answer]:
    def check(world: World, _: tuple[str, ...], wanted: int) -> Answer:
        found = world.history.stops()
        return compare(found, wanted), f"{found} stops"

    return check


def _largest_gang(world: World, _: tuple[str, ...], wanted: int) -> Answer:
    found = largest_gang(world.snapshot(), "H100")
    return found == wanted, f"a gang of {found}"


_CHECKS: dict[Subject, dict[str, Callable[[World, tuple[str, ...], Any], Answer]]] = {
    Subject.JOB: {
        "state": _job(_job_state),
        "reason": _job(_job_reason),
        "gpus": _job(_gpus),
        "hosts": _job(_domains("hosts", lambda _, host: host)),
        "racks": _job(_domains("racks", lambda world, host: (world.nodes[host].az, world.nodes[host].rack))),
        "azs": _job(_domains("AZs", lambda world, host: world.nodes[host].az)),
        "on": _job(_on),
        "not_on": _job(_not_on),
        "started_by": _job(_started_by),
        "not_started_before": _job(_not_started_before),
        "ended_by": _job(_ended_by),
        "stops": _job(_stops),
        "restarts": _job(_restarts),
        "stop_cause": _job(_stop_cause),
        "lost_work_at_most": _job(_lost_work),
        "eta_at_most": _job(_eta(_at_most)),
        "eta_at_least": _job(_eta(_at_least)),
    },
    Subject.JOBS: {
        "running": _jobs_running(_equal),
        "running_at_most": _jobs_running(_at_most),
        "running_at_least": _jobs_running(_at_least),
        "all": _jobs_all,
    },
    Subject.TEAM: {
        "gpus": _team_gpus(_equal),
        "gpus_at_most": _team_gpus(_at_most),
        "gpus_at_least": _team_gpus(_at_least),
    },
    Subject.HOST: {"state": _host_state},
    Subject.CLUSTER: {
        "idle_gpus": _idle_gpus(_equal),
        "idle_gpus_at_most": _idle_gpus(_at_most),
        "stops_total": _stops_in_all(_equal),
        "stops_at_most": _stops_in_all(_at_most),
        "largest_gang": _largest_gang,
    },
}
