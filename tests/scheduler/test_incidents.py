"""Incidents, told from events."""

from __future__ import annotations

import pytest

from scheduler.incidents import HostEvent, Incident, Stopped, tell

PLACES = {f"h{n}": ("az1", "r1" if n <= 4 else "r2") for n in range(1, 9)}
SECOND, MINUTE = 1000, 60_000


def host(at_s: float, node: str, state: str, why: str = "") -> HostEvent:
    return HostEvent(int(at_s * SECOND), node, "host", state, why)


def gpu(at_s: float, node: str, state: str, index: int = 3) -> HostEvent:
    return HostEvent(int(at_s * SECOND), node, "gpu", state, "", index)


def told(*events: HostEvent, stopped: tuple[Stopped, ...] = ()) -> list[Incident]:
    return tell(events, stopped, PLACES)


@pytest.mark.parametrize(
    ("events", "kind", "end_s"),
    [
        pytest.param([host(0, "h1", "SUSPECT")], "SUSPECT", None, id="silent and not given up yet"),
        pytest.param([host(0, "h1", "SUSPECT"), host(9, "h1", "READY")], "SUSPECT", 9, id="came back"),
        pytest.param([host(0, "h1", "SUSPECT"), host(30, "h1", "DOWN")], "DOWN", None, id="lost"),
        pytest.param(
            [host(0, "h1", "SUSPECT"), host(30, "h1", "DOWN"), host(99, "h1", "READY")], "DOWN", 99, id="lost and back"
        ),
        pytest.param([host(0, "h1", "QUARANTINED"), host(5, "h1", "READY")], "QUARANTINED", 5, id="quarantined"),
        pytest.param([gpu(0, "h1", "FAULTY"), gpu(7, "h1", "OK")], "FAULTY", 7, id="a GPU fault"),
    ],
)
def test_an_incident_is_its_worst_state_from_the_first_bad_word_to_the_good_one(
    events: list[HostEvent], kind: str, end_s: int | None
) -> None:
    (found,) = told(*events)
    assert (found.kind, found.start_ms) == (kind, 0)
    assert found.end_ms == (None if end_s is None else end_s * SECOND)


def test_the_good_word_alone_is_no_incident() -> None:
    assert told(host(0, "h1", "READY"), gpu(0, "h1", "OK")) == []


def test_a_host_that_fails_twice_is_two_incidents_the_newest_first() -> None:
    found = told(host(0, "h1", "DOWN"), host(9, "h1", "READY"), host(20, "h1", "DOWN"))
    assert [one.start_ms for one in found] == [20 * SECOND, 0]


def test_hosts_of_a_rack_that_fall_silent_together_are_one_incident() -> None:
    found = told(*(host(n, f"h{n}", "DOWN") for n in (1, 2, 3, 5)))
    assert [(one.kind, one.nodes) for one in found] == [("DOWN", ["h5"]), ("RACK", ["h1", "h2", "h3"])]


def test_two_hosts_are_not_a_rack_and_neither_are_three_on_three_days() -> None:
    assert {one.kind for one in told(host(0, "h1", "DOWN"), host(1, "h2", "DOWN"))} == {"DOWN"}
    assert {one.kind for one in told(*(host(n * 9999, f"h{n}", "DOWN") for n in (1, 2, 3)))} == {"DOWN"}


def test_a_rack_is_well_when_its_last_host_is() -> None:
    bad = [host(n, f"h{n}", "DOWN") for n in (1, 2, 3)]
    assert told(*bad, host(50, "h1", "READY"), host(60, "h2", "READY"))[0].end_ms is None
    good = [host(50 + n, f"h{n}", "READY") for n in (1, 2, 3)]
    assert told(*bad, *good)[0].end_ms == 53 * SECOND


def test_a_job_belongs_to_what_happened_to_its_host_right_before() -> None:
    events = host(0, "h1", "DOWN"), host(100, "h1", "READY"), host(900, "h1", "DOWN")
    early = Stopped("a", 30 * SECOND, "node_failure", ("h1", "h2"), 60 * SECOND, ("h5",))
    late = Stopped("b", 901 * SECOND, "node_failure", ("h1",))
    planned = Stopped("c", 901 * SECOND, "drain", ("h1",))
    elsewhere = Stopped("d", 901 * SECOND, "node_failure", ("h7",))
    after = Stopped("e", 600 * SECOND, "node_failure", ("h1",))
    newest, oldest = told(*events, stopped=(early, late, planned, elsewhere, after))
    assert [job.job for job in oldest.jobs] == ["a"]
    assert [job.job for job in newest.jobs] == ["b"]


# --- faults and notices


def xid(at_s: float, node: str, number: int, what: str) -> HostEvent:
    return HostEvent(int(at_s * SECOND), node, "gpu", "XID", f"Xid {number}", 3, number, what)


def notice(at_s: float, node: str, state: str, what: str = "terminate", name: str = "n1") -> HostEvent:
    return HostEvent(int(at_s * SECOND), node, "notice", state, name, None, None, what)


def test_a_gpu_fault_says_which_xid_it_was_and_what_that_calls_for() -> None:
    (found,) = told(xid(0, "h1", 79, "reboot_host"), gpu(0, "h1", "FAULTY"))
    assert (found.kind, found.why, found.what) == ("FAULTY", "Xid 79", "reboot_host")


def test_a_fault_of_a_program_is_over_at_once_and_knows_whom_it_stopped() -> None:
    stopped = Stopped("job", 1000, "rank_failure", ("h1",))
    (found,) = told(xid(0, "h1", 31, "restart_app"), stopped=(stopped,))
    assert (found.kind, found.end_ms, found.jobs) == ("XID", 0, [stopped])


def test_what_is_to_be_ignored_is_no_incident() -> None:
    assert told(xid(0, "h1", 63, "ignore")) == []


def test_a_notice_ends_with_its_host_and_knows_whom_it_moved() -> None:
    moved, other = Stopped("a", 1000, "spot", ("h1",)), Stopped("b", 1000, "preempt", ("h1",))
    gone = host(120, "h1", "DOWN", "taken away by its provider")
    (found,) = told(notice(0, "h1", "STANDS"), gone, stopped=(moved, other))
    assert (found.kind, found.what, found.end_ms, found.jobs) == ("NOTICE", "terminate", 120 * SECOND, [moved])


def test_a_notice_that_is_taken_back_is_over() -> None:
    (found,) = told(notice(0, "h1", "STANDS", "maintenance"), notice(9, "h1", "OVER", ""))
    assert found.end_ms == 9 * SECOND


def test_a_rack_of_which_no_host_was_given_up_was_a_blip() -> None:
    silent = [host(n, f"h{n}", "SUSPECT") for n in (1, 2, 3)]
    (found,) = told(*silent, *(host(40, f"h{n}", "READY") for n in (1, 2, 3)))
    assert found.kind == "RACK_BLIP"
