"""Reading the events of a scenario. Submissions first, since any event may name any job of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from nodes.agent.simulated import Step
from scheduler.core.types import NodeIntent, RankState, Window
from scheduler.sim import events
from scheduler.sim.jobs import Submission, read_submission
from scheduler.sim.quota import Branch, Names, Path, lay_over, read_branches, walk
from scheduler.sim.reading import Bad, Fields, anything, at_least, duration, integer, list_of, one_of, text


class EventReader:
    """The events of one file.

    After ``read()``: ``jobs`` are all job names in the order of their submission in the file, ``arrays`` the elements
    of each array, ``names`` what the nodes of the quota tree are called in the records.
    """

    def __init__(
        self, rows: list[Fields], start_ms: int, hosts: Iterable[NodeIntent], quota: Mapping[str, Branch]
    ) -> None:
        self._rows = rows
        self._start_ms = start_ms
        self._hosts = {host.name: host for host in hosts}
        self._quota = quota
        self._leaves: frozenset[str] = frozenset()
        self._keys: dict[str, tuple[str, str]] = {}
        self.names = Names()
        self.arrays: dict[str, tuple[str, ...]] = {}
        self.jobs: tuple[str, ...] = ()

    def read(self) -> tuple[events.Timed, ...]:
        """Every event, by time and, within one time, in file order."""
        times = [row.take("at", duration) for row in self._rows]
        kinds = [_kind(row) for row in self._rows]
        timed: list[tuple[int, int, events.Event]] = []
        for number, (row, kind) in enumerate(zip(self._rows, kinds, strict=True)):
            if kind == "quota":
                timed.append((times[number], number, events.QuotaEdit(read_branches(row.nested("quota")))))
        self._name_quota_nodes([event.tree for _, _, event in timed if isinstance(event, events.QuotaEdit)])
        for number, (row, kind) in enumerate(zip(self._rows, kinds, strict=True)):
            if kind in ("submit", "submit_many"):
                timed.extend((at, number, event) for at, event in self._submissions(row, kind, times[number]))
        timed = [(at, number, self._with_dependencies(number, event)) for at, number, event in timed]
        for number, (row, kind) in enumerate(zip(self._rows, kinds, strict=True)):
            if kind not in ("quota", "submit", "submit_many"):
                timed.append((times[number], number, _READERS[kind](self, row)))
        for row in self._rows:
            row.done()
        timed.sort(key=lambda item: item[:2])
        return tuple(events.Timed(at, event) for at, _, event in timed)

    # --- names

    def _name_quota_nodes(self, edits: list[Mapping[str, Branch]]) -> None:
        whole = dict(self._quota)
        for edit in edits:
            whole = lay_over(whole, edit)
        paths: set[Path] = {path for path, _ in walk(whole)}
        self.names = Names.over(paths)
        parents = {path[:-1] for path in paths}
        self._leaves = frozenset(name for path, name in self.names.of.items() if path not in parents)

    def team(self, value: Any) -> str:
        """Reads a node of the quota tree; without a tree every name is one."""
        written = text(value)
        return self.names.find(written) if self.names.of else written

    def _submitting_team(self, value: Any) -> str:
        name = self.team(value)
        if self.names.of and name not in self._leaves:
            raise Bad(f"{value!r} is no team: it has children")
        return name

    def _host(self, value: Any) -> str:
        name = text(value)
        if name not in self._hosts:
            raise Bad(f"no host is called {name!r}")
        return name

    def _job(self, value: Any) -> str:
        name = text(value)
        if name not in self.jobs:
            raise Bad(f"no job is called {name!r}")
        return name

    def _jobs(self, value: Any) -> tuple[str, ...]:
        """A job, or all elements of an array."""
        name = text(value)
        return self.arrays.get(name) or (self._job(name),)

    # --- submissions

    def _submissions(self, row: Fields, kind: str, at_ms: int) -> list[tuple[int, events.Event]]:
        if kind == "submit":
            return self._once(row, row.nested("submit"), at_ms)
        many = row.nested("submit_many")
        prefix, every_ms = many.take("prefix", text), many.take("every", duration)
        count = many.take("n", at_least(1))
        job = many.take("job", anything)
        many.done()
        answer: list[tuple[int, events.Event]] = []
        for n in range(count):
            fields = Fields(many.file, many.place("job"), job)
            answer.extend(self._once(row, fields, at_ms + n * every_ms, f"{prefix}{n}"))
        return answer

    def _once(self, row: Fields, fields: Fields, at_ms: int, name: str | None = None) -> list[tuple[int, events.Event]]:
        submission = read_submission(fields, self._start_ms + at_ms, self._submitting_team, name)
        self._remember(row, submission)
        return [(at_ms, events.Submit(submission.requests))]

    def _remember(self, row: Fields, submission: Submission) -> None:
        first = submission.requests[0]
        known = set(self.jobs) | set(self.arrays)
        if submission.name in known or any(request.spec.id in known for request in submission.requests):
            if first.key is None or self._keys.get(submission.name, ("", ""))[0] != first.key:
                row.refuse(f"job {submission.name!r} is submitted twice without one idempotency key")
            return
        if first.key is not None:
            self._keys[submission.name] = (first.key, first.body)
        self.jobs += tuple(request.spec.id for request in submission.requests)
        if submission.is_array:
            self.arrays[submission.name] = tuple(request.spec.id for request in submission.requests)

    def _with_dependencies(self, number: int, event: events.Event) -> events.Event:
        """The event with ``after`` resolved: an array's name means all of its elements."""
        if not isinstance(event, events.Submit) or not event.requests[0].spec.after:
            return event
        try:
            after = tuple(job for name in event.requests[0].spec.after for job in self._jobs(name))
        except Bad as bad:
            self._rows[number].refuse(str(bad), "submit.after")
        return events.Submit(
            tuple(replace(request, spec=replace(request.spec, after=after)) for request in event.requests)
        )

    # --- the other events

    def _cordon(self, row: Fields) -> events.Event:
        host, reason = self._host_and_reason(row, "cordon")
        return events.Cordon(host, reason)

    def _drain(self, row: Fields) -> events.Event:
        host, reason = self._host_and_reason(row, "drain")
        return events.Drain(host, reason)

    def _host_and_reason(self, row: Fields, kind: str) -> tuple[str, str]:
        if not isinstance(row.written[kind], Mapping):
            return row.take(kind, self._host), ""
        inner = row.nested(kind)
        answer = inner.take("host", self._host), inner.take("reason", text, "")
        inner.done()
        return answer

    def _maintenance(self, row: Fields) -> events.Event:
        inner = row.nested("maintenance")
        hosts = inner.take("hosts", list_of(self._host), None)
        az, rack = inner.take("az", text, None), inner.take("rack", text, None)
        window = self._window(inner)
        inner.done()
        if (hosts is None) == (az is None and rack is None):
            inner.refuse("names either hosts, or az or rack or both")
        if hosts is None:
            hosts = tuple(
                name
                for name, host in self._hosts.items()
                if (az is None or host.az == az) and (rack is None or host.rack == rack)
            )
            if not hosts:
                inner.refuse("no host is there")
        return events.Maintenance(hosts, window)

    def _window(self, inner: Fields) -> Window:
        start_ms, end_ms = inner.take("start", duration), inner.take("end", duration)
        if end_ms <= start_ms:
            inner.refuse("should be later than start", "end")
        return Window(self._start_ms + start_ms, self._start_ms + end_ms)

    def _reserve(self, row: Fields) -> events.Event:
        inner = row.nested("reserve")
        event = events.Reserve(
            inner.take("name", text),
            inner.take("team", self.team),
            inner.take("gpus", at_least(1)),
            inner.take("gpu_type", text, "H100"),
            self._window(inner),
        )
        inner.done()
        return event

    def _gpu(self, row: Fields, kind: str) -> tuple[str, int]:
        inner = row.nested(kind)
        host, gpu = inner.take("host", self._host), inner.take("gpu", at_least(0))
        inner.done()
        if gpu >= self._hosts[host].gpus:
            inner.refuse(f"{host} has GPUs 0 to {self._hosts[host].gpus - 1}", "gpu")
        return host, gpu

    def _spot_notice(self, row: Fields) -> events.Event:
        inner = row.nested("spot_notice")
        event = events.SpotNotice(inner.take("host", self._host), 1000 * inner.take("seconds", at_least(0)))
        inner.done()
        return event

    def _rank_exit(self, row: Fields) -> events.Event:
        inner = row.nested("rank_exit")
        event = events.RankExit(
            inner.take("job", self._job), inner.take("rank", at_least(0), 0), inner.take("code", integer)
        )
        inner.done()
        return event

    def _stall(self, row: Fields) -> events.Event:
        inner = row.nested("stall")
        event = events.Stall(inner.take("job", self._job), Step(inner.take("what", one_of(Step))))
        inner.done()
        return event

    def _leader_crash(self, row: Fields) -> events.Event:
        inner = row.nested("leader_crash")
        event = events.LeaderCrash(inner.take("down", duration))
        inner.done()
        return event

    def _store_down(self, row: Fields) -> events.Event:
        inner = row.nested("store_down")
        event = events.StoreDown(inner.take("for", duration))
        inner.done()
        return event

    def _report(self, row: Fields) -> events.Event:
        inner = row.nested("report")
        event = events.LateReport(
            inner.take("job", self._job),
            inner.take("attempt", at_least(1)),
            inner.take("rank", at_least(0)),
            RankState(inner.take("state", one_of(("RUNNING", "SUCCEEDED", "FAILED")))),
        )
        inner.done()
        return event


_READERS: dict[str, Callable[[EventReader, Fields], events.Event]] = {
    "cancel": lambda reader, row: events.Cancel(row.take("cancel", reader._jobs)),
    "hold": lambda reader, row: events.Hold(row.take("hold", reader._jobs)),
    "release": lambda reader, row: events.Release(row.take("release", reader._jobs)),
    "node_down": lambda reader, row: events.NodeDown(row.take("node_down", reader._host)),
    "node_up": lambda reader, row: events.NodeUp(row.take("node_up", reader._host)),
    "node_back": lambda reader, row: events.NodeBack(row.take("node_back", reader._host)),
    "cordon": EventReader._cordon,
    "uncordon": lambda reader, row: events.Uncordon(row.take("uncordon", reader._host)),
    "drain": EventReader._drain,
    "maintenance": EventReader._maintenance,
    "reserve": EventReader._reserve,
    "gpu_fault": lambda reader, row: events.GpuFault(*reader._gpu(row, "gpu_fault")),
    "gpu_ok": lambda reader, row: events.GpuOk(*reader._gpu(row, "gpu_ok")),
    "spot_notice": EventReader._spot_notice,
    "rank_exit": EventReader._rank_exit,
    "stall": EventReader._stall,
    "leader_crash": EventReader._leader_crash,
    "store_down": EventReader._store_down,
    "report": EventReader._report,
}
_KINDS = ("submit", "submit_many", "quota", *_READERS)


def _kind(row: Fields) -> str:
    """The one key of the row beside ``at``."""
    found = [key for key in row.keys() if key in _KINDS]  # noqa: SIM118 (keys() is a list)
    if len(found) != 1:
        unknown = [key for key in row.keys() if key not in _KINDS]  # noqa: SIM118
        row.refuse(f"unknown key {unknown[0]!r}" if unknown else "should hold one event beside 'at'")
    return found[0]
