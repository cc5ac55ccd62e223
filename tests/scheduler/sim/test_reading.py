"""Every scenario file is read whole or refused with its place and reason."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from scheduler.core.types import Hint, Window
from scheduler.sim import events
from scheduler.sim.quota import tree
from scheduler.sim.reading import Bad, NotAScenario, duration, fraction, moment
from scheduler.sim.scenario import Scenario, load, read

FLEET = [{"az": "az1", "rack": "r1", "hosts": 2, "gpu_type": "H100", "name": "n"}]


def scenario(**changes: object) -> Scenario:
    return read("s.yaml", {"title": "t", "fleet": FLEET, "events": [], **changes})


def with_event(**event: object) -> list[dict[str, object]]:
    return [{"at": "0s", "submit": {"job": "a", "team": "ml", "gpus": 8}}, {"at": "1m", **event}]


@pytest.mark.parametrize(
    ("written", "ms"), [("90s", 90_000), ("1.5h", 5_400_000), ("30.25m", 1_815_000), ("2d", 172_800_000), ("0s", 0)]
)
def test_durations(written: str, ms: int):
    assert duration(written) == ms


@pytest.mark.parametrize("written", ["90", 90, "-1s", "1 h", "1w", "", None, True, "1.h", "1e3s"])
def test_what_is_no_duration(written: object):
    with pytest.raises(Bad, match="a number with s, m, h or d"):
        duration(written)


def test_shares_are_read_exactly():
    assert fraction(0.001) == Fraction(1, 1000)
    with pytest.raises(Bad):
        fraction(float("nan"))


def test_points_in_time():
    assert moment("1970-01-02T00:00:00Z") == 86_400_000
    assert moment("1970-01-02T01:00:00+01:00") == 86_400_000
    with pytest.raises(Bad):
        moment("yesterday")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"fleets": []}, "s.yaml: unknown key 'fleets'", id="unknown key at the top"),
        pytest.param({"fleet": [{**FLEET[0], "gpu": 4}]}, "fleet[0]: unknown key 'gpu'", id="unknown key of a host"),
        pytest.param({"fleet": [{"az": "a"}]}, "fleet[0]: 'rack' is missing", id="missing key"),
        pytest.param({"settings": {"grace": 120}}, "settings.grace: should be a number with s", id="no unit"),
        pytest.param({"settings": {"tick": "0s"}}, "settings.tick: should be longer than 0s", id="a tick of nothing"),
        pytest.param({"events": with_event(cordon="n3")}, "events[1].cordon: no host is called 'n3'", id="no host"),
        pytest.param({"events": with_event(cancel="b")}, "events[1].cancel: no job is called 'b'", id="no job"),
        pytest.param({"events": with_event(explode="n1")}, "events[1]: unknown key 'explode'", id="no event"),
        pytest.param(
            {"events": with_event(cordon="n1", drain="n1")}, "events[1]: should hold one event", id="two events"
        ),
        pytest.param({"events": [{"cordon": "n1"}]}, "events[0]: 'at' is missing", id="an event without a time"),
        pytest.param(
            {"events": with_event(gpu_fault={"host": "n1", "gpu": 8})}, "gpu_fault.gpu: n1 has GPUs 0 to 7", id="no GPU"
        ),
        pytest.param(
            {"events": with_event(submit={"job": "a", "team": "ml", "gpus": 8})},
            "events[1]: job 'a' is submitted twice",
            id="one name for two jobs",
        ),
        pytest.param(
            {"events": with_event(submit={"job": "b", "team": "ml", "gpus": 0})},
            "events[1].submit.gpus: should be at least 1",
            id="no GPUs",
        ),
        pytest.param(
            {"events": with_event(submit={"job": "b", "team": "ml", "gpus": 1, "after": ["z"]})},
            "events[1].submit.after: no job is called 'z'",
            id="after nobody",
        ),
        pytest.param(
            {"quota": {"x": {}}, "events": with_event()[:1]},
            "events[0].submit.team: no node of the quota tree is called 'ml'",
            id="no team",
        ),
        pytest.param(
            {"quota": {"ml": {"children": {"x": {}}}}, "events": with_event()[:1]},
            "events[0].submit.team: 'ml' is no team: it has children",
            id="a department submits nothing",
        ),
        pytest.param(
            {"events": with_event(maintenance={"start": "1h", "end": "2h"})},
            "events[1].maintenance: names either hosts",
            id="maintenance of nothing",
        ),
        pytest.param(
            {"events": with_event()[:1], "expect": [{"at": "1m", "job": "a", "stat": "RUNNING"}]},
            "expect[0]: unknown key 'stat'",
            id="unknown expectation",
        ),
        pytest.param(
            {"events": with_event()[:1], "expect": [{"job": "a", "state": "WAITING"}]},
            "expect[0].state: should be one of PENDING",
            id="unknown state",
        ),
        pytest.param(
            {"events": with_event()[:1], "expect": [{"jobs": ["b*"], "running": 1}]},
            "expect[0].jobs: no job is called 'b*'",
            id="a pattern of no job",
        ),
        pytest.param({"expect": [{"at": "1m"}]}, "expect[0]: expects nothing", id="expects nothing"),
    ],
)
def test_what_is_no_scenario(changes: dict[str, object], message: str):
    with pytest.raises(NotAScenario) as refused:
        scenario(**changes)
    assert message in str(refused.value)
    assert str(refused.value).startswith("s.yaml:")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("title: [", "is neither YAML nor JSON", id="broken"),
        pytest.param("title: a\ntitle: b\n", "key 'title' stands twice", id="a key twice"),
    ],
)
def test_files_that_are_no_yaml(tmp_path: Path, text: str, message: str):
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(NotAScenario, match=message):
        load(path)


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(NotAScenario, match="cannot be read"):
        load(tmp_path / "none.yaml")


def test_json_is_read_as_well(tmp_path: Path):
    path = tmp_path / "s.json"
    path.write_text('{"title": "t", "fleet": [{"az": "a", "rack": "r", "hosts": 1, "gpu_type": "H100"}], "events": []}')
    assert [host.name for host in load(path).hosts] == ["a-r-h1"]


def test_numbering_of_hosts_goes_on_over_lines_of_one_prefix():
    big = {**FLEET[0], "hosts": 1, "memory_gb": 4096}
    assert [host.name for host in scenario(fleet=[*FLEET, big]).hosts] == ["n1", "n2", "n3"]


def test_events_of_one_time_keep_their_order():
    found = scenario(
        events=[
            {"at": "2m", "cordon": "n1"},
            {"at": "1m", "cordon": "n2"},
            {"at": "1m", "submit": {"job": "a", "team": "ml", "gpus": 1}},
            {"at": "1m", "uncordon": "n2"},
        ]
    )
    assert [type(timed.event).__name__ for timed in found.events] == ["Cordon", "Submit", "Uncordon", "Cordon"]


def test_an_array_is_its_elements():
    found = scenario(
        events=[
            {"at": "0s", "submit": {"job": "a", "team": "ml", "gpus": 1, "count": 2}},
            {"at": "1s", "submit": {"job": "b", "team": "ml", "gpus": 1, "after": ["a"]}},
            {"at": "2s", "cancel": "a"},
        ],
        expect=[{"jobs": ["a*", "b"], "running": 0}],
    )
    assert found.jobs == ("a[0]", "a[1]", "b")
    submit, cancel = found.events[1].event, found.events[2].event
    assert isinstance(submit, events.Submit)
    assert submit.requests[0].spec.after == ("a[0]", "a[1]")
    assert cancel == events.Cancel(("a[0]", "a[1]"))
    assert found.expectations[0].names == ("a[0]", "a[1]", "b")


def test_patience_nvlink_and_a_throttle_are_wishes_of_a_job():
    job = {"job": "a", "team": "ml", "gpus": 16, "count": 3, "throttle": 2, "topology_wait": "10m", "nvlink": "require"}
    found = scenario(events=[{"at": "0s", "submit": job}])
    submit = found.events[0].event
    assert isinstance(submit, events.Submit)
    specs = [request.spec for request in submit.requests]
    assert {(one.array, one.throttle, one.topology_wait_ms, one.nvlink.value) for one in specs} == {
        ("a", 2, 600_000, "require")
    }


def test_many_jobs_come_one_after_the_other():
    job = {"team": "ml", "gpus": 8, "hint": "require_same_host"}
    found = scenario(events=[{"at": "1m", "submit_many": {"prefix": "w", "n": 3, "every": "6m", "job": job}}])
    assert [timed.at_ms for timed in found.events] == [60_000, 420_000, 780_000]
    last = found.events[2].event
    assert isinstance(last, events.Submit)
    assert (last.requests[0].spec.id, last.requests[0].spec.submitted_ms) == ("w2", 780_000)
    assert last.requests[0].spec.hint is Hint.REQUIRE_SAME_HOST


def test_the_same_request_may_come_again_under_its_key():
    again = {"job": "a", "team": "ml", "gpus": 8, "key": "k"}
    found = scenario(events=[{"at": "0s", "submit": again}, {"at": "2s", "submit": again}])
    assert found.jobs == ("a",)


def test_a_start_moves_every_point_in_time():
    found = scenario(
        start="1970-01-02T00:00:00Z",
        events=with_event(maintenance={"rack": "r1", "start": "1h", "end": "2h"}),
    )
    window = found.events[1].event
    assert isinstance(window, events.Maintenance)
    assert window == events.Maintenance(("n1", "n2"), Window(86_400_000 + 3_600_000, 86_400_000 + 7_200_000))


def test_on_without_quotes_is_read_too(tmp_path: Path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "title: t\nfleet: [{az: a, rack: r, hosts: 1, gpu_type: H100, name: n}]\n"
        "events: [{at: 0s, submit: {job: a, team: ml, gpus: 1}}]\nexpect: [{at: 1s, job: a, on: [n1]}]\n"
    )
    assert load(path).expectations[0].checks == (("on", ("n1",)),)


def test_quota_nodes_of_one_name_are_told_apart_by_their_path():
    found = scenario(
        quota={"x": {"children": {"ml": {}}}, "y": {"children": {"ml": {"floor": {"H100": 8}}}}},
        events=[{"at": "0s", "submit": {"job": "a", "team": "y/ml", "gpus": 1}}],
        expect=[{"team": "x/ml", "gpus": 0}],
    )
    names = [node.name for node in tree(found.quota.branches, found.quota.names, 1).nodes]
    assert names == ["x", "x/ml", "y", "y/ml"]
    assert found.expectations[0].names == ("x/ml",)
    with pytest.raises(NotAScenario, match="several nodes"):
        scenario(
            quota={"x": {"children": {"ml": {}}}, "y": {"children": {"ml": {}}}},
            events=[{"at": "0s", "submit": {"job": "a", "team": "ml", "gpus": 1}}],
        )
