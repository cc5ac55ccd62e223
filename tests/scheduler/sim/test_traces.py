"""Traces, fleets and the figures of a simulation."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.sim import fleets, metrics, traces
from scheduler.sim.reading import NotAScenario
from scheduler.sim.simulate import whole_days_ms

FLEET_WEEK = "job_id,submit_s,gpus,gpu_type,duration_s,max_runtime_s,team,user,priority\n"
PHILLY = "job_id,submit_s,gpus,nodes,gpus_per_node,duration_s,tenant,user,status\n"
OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
HOUR_MS = 3_600_000


def written(tmp_path: Path, text: str, name: str = "trace.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_trace_with_limits(tmp_path: Path):
    path = written(tmp_path, FLEET_WEEK + "1,8,16,A100,173,3600,vision,u1,P1\n0,5,1,H100,137.5,7200,ads,u2,P0\n")
    first, second = traces.load(path)
    assert (first.spec.id, first.spec.submitted_ms, first.behaviour.runtime_ms) == ("0", 5_000, 137_500)
    assert (second.spec.gpus, second.spec.gpu_type, second.spec.priority) == (16, "A100", 1)
    assert (second.spec.team, second.spec.owner, second.spec.max_runtime_ms) == ("vision", "u1", HOUR_MS)


def test_a_trace_by_tenant_gets_a_limit_that_its_run_time_fits(tmp_path: Path):
    path = written(
        tmp_path, PHILLY + "7,0.0,128,16,8,24.0,vc1,u,CANCELED\n8,1.0,8,1,8,3600.0,,,\n9,2.0,0,,,5.0,vc1,,\n"
    )
    short, longer = traces.load(path)
    assert (short.spec.team, short.spec.gpu_type, short.spec.max_runtime_ms) == ("vc1", "any", HOUR_MS)
    assert (longer.spec.team, longer.spec.max_runtime_ms) == ("everyone", 4 * HOUR_MS)


def test_pods_of_openb(tmp_path: Path):
    pods = "p0,12000,16384,2,1000,,LS,Running,10,110,20\np1,6000,12288,1,460,T4,BE,Running,11,21,\n"
    path = written(tmp_path, OPENB + pods + "p2,1000,1024,0,0,,LS,Running,12,13,12\n")
    whole, part = traces.load(path)
    assert (whole.spec.gpus, whole.spec.cpu_per_rank, whole.spec.memory_per_rank_gb) == (2, 6, 8)
    assert whole.behaviour.runtime_ms == 90_000
    assert (part.spec.gpus, part.spec.gpu_type) == (1, "T4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a,b\n1,2\n", "no known trace has the columns a, b", id="unknown columns"),
        pytest.param(FLEET_WEEK + "1,8,many,A100,1,1,t,u,P1\n", "line 2: invalid literal", id="no number"),
        pytest.param(FLEET_WEEK + "1,8,1,A100,1,1,t,u,P9\n", "line 2", id="no priority"),
        pytest.param(FLEET_WEEK + "1,8\n", "line 2", id="a short line"),
    ],
)
def test_what_is_no_trace(tmp_path: Path, text: str, message: str):
    with pytest.raises(traces.NotATrace, match=message):
        traces.load(written(tmp_path, text))


def test_the_fleet_of_the_design():
    fleet = fleets.ten_thousand()
    by_type: dict[str, int] = {}
    for host in fleet.hosts:
        by_type[host.gpu_type] = by_type.get(host.gpu_type, 0) + host.gpus
    assert len(fleet.hosts) == len({host.name for host in fleet.hosts}) == 1250
    assert by_type == {"H100": 7000, "A100": 2000, "L40S": 1000}
    assert len({(host.az, host.rack) for host in fleet.hosts}) == 32
    assert len({(host.az, host.rack, host.gpu_type) for host in fleet.hosts}) == 32
    assert fleet.teams() >= {"research-foundation-models", "production-ads"}
    assert [node.parent for node in fleet.tree().nodes if node.name == "production-ads"] == ["production"]


def test_a_fleet_from_a_file(tmp_path: Path):
    text = "fleet: [{az: a, rack: r, hosts: 2, gpu_type: H100}]\nquota: {ml: {floor: {H100: 8}}}\n"
    fleet = fleets.load_fleet(written(tmp_path, text, "fleet.yaml"))
    assert (len(fleet.hosts), fleet.teams()) == (2, frozenset({"ml"}))
    with pytest.raises(NotAScenario, match="unknown key 'hosts'"):
        fleets.load_fleet(written(tmp_path, "fleet: []\nhosts: 3\n", "fleet.yaml"))


def test_nodes_of_openb(tmp_path: Path):
    text = "sn,cpu_milli,memory_mib,gpu,model\nx,64000,262144,2,P100\ny,1000,1024,0,\n"
    (host,) = fleets.load_fleet(written(tmp_path, text, "nodes.csv")).hosts
    assert (host.name, host.gpus, host.cpus, host.memory_gb, host.gpu_type) == ("x", 2, 64, 256, "P100")
    with pytest.raises(NotAScenario, match="no list of nodes"):
        fleets.load_fleet(written(tmp_path, "a,b\n1,2\n", "nodes.csv"))


@pytest.mark.parametrize(("last_s", "days"), [(0, 1), (5, 1), (86_400, 1), (86_401, 2), (604_800, 7)])
def test_a_simulation_ends_with_the_day_of_its_last_job(tmp_path: Path, last_s: int, days: int):
    path = written(tmp_path, FLEET_WEEK + f"0,{last_s},1,H100,1,3600,ads,u,P0\n")
    assert whole_days_ms(traces.load(path)) == days * 86_400_000


def test_quantiles_are_waits_of_actual_jobs():
    found = metrics.waits_of([float(n) for n in range(1, 101)])
    assert (found.mean, found.p50, found.p90, found.p99, found.longest) == (50.5, 50, 90, 99, 100)
    assert metrics.waits_of([7.0]) == metrics.Waits(1, 7.0, 7.0, 7.0, 7.0, 7.0)
    assert metrics.waits_of([]).mean is None


def test_figures_from_a_log():
    hosts = [
        {"host": name, "az": "az1", "rack": rack, "gpu_type": "H100", "gpus": 8, "spot": None}
        for name, rack in [("n1", "r1"), ("n2", "r1"), ("n3", "r2")]
    ]
    taken = metrics.Metrics()
    for line in [
        {"t": 0, "kind": "fleet", "hosts": hosts, "quota": {}, "settings": {}},
        {"t": 0, "kind": "submit", "job": "a", "gpus": 16, "state": "PENDING"},
        {"t": 0, "kind": "submit", "job": "b", "gpus": 1, "state": "PENDING"},
        {"t": 0, "kind": "submit", "job": "c", "gpus": 99, "state": "REJECTED"},
        {"t": 10, "kind": "bind", "job": "a", "gpus": {"n1": list(range(8)), "n2": list(range(8))}},
        {"t": 20, "kind": "start", "job": "a"},
        {"t": 41, "kind": "stop", "job": "a"},
        {"t": 50, "kind": "end", "job": "a", "state": "SUCCEEDED"},
        {"t": 50, "kind": "release", "job": "a"},
    ]:
        taken.take(line)
    found = taken.report(100, lost_work_gpu_hours=0.5)
    assert (found.submitted, found.rejected, found.started, found.finished) == (2, 1, 1, 1)
    assert found.utilisation["H100"] == found.utilisation["all"] == pytest.approx(16 * 40 / (24 * 100))
    assert found.late_utilisation == {}
    assert (found.waits["9-64"].mean, found.waits["all"].count) == (20, 1)
    assert (found.waits_with_waiting["1"].mean, found.waits_with_waiting["all"].count) == (100, 2)
    assert (found.one_rack, found.multi_host) == (1.0, 1)
    assert (found.stops, found.lost_gpu_hours) == (1, 0.5 + 16 * 9 / 3600)
