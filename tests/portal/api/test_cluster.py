"""``queue``, ``cluster``, ``cluster/map``, ``nodes`` and ``quotas``."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from nodes.models import Node
from nodes.readings import Readings
from nodes.telemetry import GpuReading, Telemetry
from scheduler import connections
from scheduler.core.types import JobDecision, JobIntent, JobSpec, Phase, Slice
from scheduler.models import JobEvent, Outbox
from scheduler.picture import Picture
from scheduler.store import codec, keys
from tests.portal.api.conftest import Api, problem

pytestmark = pytest.mark.usefixtures("fleet")


def spec(job: str, team: str, gpus: int = 8) -> JobSpec:
    return JobSpec(job, team, gpus, "H100", 2, 3_600_000, 1000, name=f"name of {job}", owner=f"{team}@example.com")


@pytest.fixture
def waiting(show: Callable[..., None]) -> None:
    """One job of vision and one of speech wait."""
    show({keys.intent_job(job): JobIntent(spec(job, team)) for job, team in [("A", "vision"), ("B", "speech")]})


@pytest.fixture
def running(show: Callable[..., None]) -> None:
    """A gang of vision's runs on h1 and h2, without checkpoints."""
    gpus = tuple(range(8))
    decision = JobDecision(
        phase=Phase.RUNNING,
        attempt=1,
        fence=1,
        allocation=(Slice("h1", gpus), Slice("h2", gpus)),
        gpu_type="H100",
        bound_ms=1000,
        started_ms=2000,
        first_started_ms=2000,
    )
    show({keys.intent_job("R"): JobIntent(spec("R", "vision", 16)), keys.decision_job("R"): decision})


@pytest.mark.usefixtures("waiting")
def test_the_queue_names_ones_own_jobs_and_of_others_team_and_size(ada: Api, pager: Api) -> None:
    rows = {row["team"]: row for row in ada.get("queue").json()["rows"]}
    assert (rows["vision"]["name"], rows["vision"]["gpus"]) == ("name of A", 8)
    assert (rows["speech"]["id"], rows["speech"]["name"], rows["speech"]["owner"]) == (None, None, None)
    assert rows["speech"]["gpus"] == 8
    assert {row["name"] for row in pager.get("queue").json()["rows"]} == {"name of A", "name of B"}


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize(
    ("query", "total", "shown"),
    [({}, 2, 2), ({"team": "speech"}, 1, 1), ({"gpu_type": "A100"}, 0, 0), ({"limit": 1}, 2, 1)],
)
def test_the_queue_is_narrowed(ada: Api, query: dict[str, Any], total: int, shown: int) -> None:
    found = ada.get("queue", query).json()
    assert (found["total"], len(found["rows"])) == (total, shown)


@pytest.mark.usefixtures("running")
def test_the_cluster_adds_up(ada: Api) -> None:
    found = ada.get("cluster").json()
    counts = found["gpus"]["H100"]
    assert (counts["total"], counts["used"], counts["free"]) == (48, 16, 32)
    assert found["hosts"] == {"READY": 7}
    assert found["jobs"] == {"RUNNING": 1}


@pytest.mark.usefixtures("running")
def test_the_map_shows_every_gpu_and_no_name(ada: Api, eve: Api) -> None:
    found = eve.get("cluster/map")
    rows = {row[0]: row for row in found.json()["nodes"]}
    assert rows["h1"][1:] == ["az1", "r1", "H100", "READY", [0] * 8]
    assert rows["h3"][5] == [-1] * 8
    assert found.json()["jobs"][0][:4] == ["R", "vision", "RUNNING", 16]
    assert "name of R" not in found.content.decode()


def test_a_map_that_is_held_already_is_not_sent_again(ada: Api, show: Callable[..., None]) -> None:
    first = ada.get("cluster/map")
    again = ada.get("cluster/map", **{"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    show({keys.intent_job("A"): JobIntent(spec("A", "vision"))})
    changed = ada.get("cluster/map", **{"If-None-Match": first["ETag"]})
    assert (changed.status_code, changed.json()["revision"]) == (200, first.json()["revision"] + 1)


def test_the_map_travels_compressed(ada: Api) -> None:
    found = ada.get("cluster/map", None, **{"Accept-Encoding": "gzip"})
    assert found["Content-Encoding"] == "gzip"
    assert len(json.loads(gzip.decompress(found.content))["nodes"]) == 7


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["h1", "h2", "h3", "h4", "h5", "h6", "h7"]),
        ({"az": "az2", "gpu_type": "H100"}, ["h5", "h6"]),
        ({"rack": "r1,r3"}, ["h1", "h2", "h3", "h4", "h7"]),
        ({"state": "DOWN"}, []),
    ],
)
def test_nodes_are_listed_by_place(ada: Api, query: dict[str, str], names: list[str]) -> None:
    found = ada.get("nodes", query).json()
    assert [row["name"] for row in found["items"]] == names
    assert sum(found["counts"].values()) == len(names)


@pytest.mark.usefixtures("running")
def test_a_node_shows_what_is_on_it(ada: Api) -> None:
    found = ada.get("nodes/h1").json()
    assert (found["row"]["state"], found["row"]["free"], found["held_by"][0]["team"]) == ("READY", 0, "vision")
    problem(ada.get("nodes/h99"), 404)


def wish_of(name: str) -> Any:
    """The newest intent of the node on its way to the scheduler."""
    from scheduler.core.types import NodeIntent

    row = Outbox.objects.filter(key=keys.intent_node(name)).order_by("-pk")[0]
    return codec.decode(NodeIntent, bytes(row.value))


def test_on_call_cordons_and_uncordons(pager: Api) -> None:
    cordoned = pager.post("nodes/h1/cordon", {"reason": "fan is loud"})
    assert (cordoned.status_code, cordoned.json()["cordon"]) == (202, "fan is loud")
    assert wish_of("h1").cordon == "fan is loud"
    uncordoned = pager.post("nodes/h1/uncordon").json()
    assert (uncordoned["cordon"], uncordoned["drain"], uncordoned["radius"]) == (None, None, None)
    assert wish_of("h1").cordon is None


@pytest.mark.usefixtures("running")
def test_a_drain_says_whom_it_moves_and_a_dry_run_moves_nobody(pager: Api) -> None:
    radius = {"name": "h1", "dry_run": True, "jobs": 1, "gpus": 16, "without_checkpoint": 1}
    found = pager.post("nodes/h1/drain?dry_run=1", {"reason": "kernel"}).json()
    assert {name: found[name] for name in radius} == radius
    assert not Outbox.objects.exists()
    assert pager.post("nodes/h1/drain", {"reason": "kernel"}).json()["dry_run"] is False
    assert wish_of("h1").drain == "kernel"


@pytest.mark.parametrize("act", ["cordon", "uncordon", "drain"])
def test_only_on_call_operates_nodes(ada: Api, act: str) -> None:
    problem(ada.post(f"nodes/h1/{act}", {"reason": "no"}), 403)
    assert not Node.objects.exclude(cordon_reason=None, drain_reason=None).exists()


@pytest.mark.parametrize("name", ["h99", "%00", "h1%0A"], ids=["unknown", "NUL", "line end"])
@pytest.mark.parametrize("act", ["cordon", "uncordon", "drain"])
def test_a_node_that_is_not_there_cannot_be_operated(pager: Api, act: str, name: str) -> None:
    problem(pager.post(f"nodes/{name}/{act}", {"reason": "no"}), 404)


@pytest.mark.parametrize("sent", [{}, {"reason": ""}, {"reason": "a\0"}, {"reason": 1}, {"reason": "x", "why": "y"}])
def test_a_reason_is_wanted(pager: Api, sent: Any) -> None:
    assert problem(pager.post("nodes/h1/cordon", sent), 400)["errors"]


def test_the_quota_tree_is_shown_with_its_version(ada: Api) -> None:
    found = ada.get("quotas")
    assert (found.json()["version"], found["ETag"]) == (1, '"1"')
    rows = {row["name"]: row for row in found.json()["nodes"]}
    assert (rows["vision"]["parent"], rows["research"]["ceiling"], rows["ads"]["p0_allowed"]) == (
        "research",
        {"A100": 16},
        True,
    )


@pytest.mark.parametrize("path", ["queue", "cluster", "cluster/map", "nodes", "nodes/h1"])
def test_without_a_live_state_that_was_ever_seen_it_is_503(
    ada: Api, path: str, picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture.stop()
    monkeypatch.setattr(picture, "start", lambda: picture)
    monkeypatch.setattr(picture, "_shown", None)
    response = ada.get(path)
    assert problem(response, 503)["type"] == "urn:gangway:problem:store-unavailable"
    assert response["Retry-After"]


def test_a_nodes_health_is_its_readings_faults_and_changes(ada: Api, redis_url: str, settings: Any) -> None:
    settings.REDIS_URL = redis_url
    connections.close()
    told = Readings(connections.cache)
    told.note("h1", Telemetry(1, "nvml", (GpuReading(0, 97.0),)))
    told.send()
    fault = {"gpu": 3, "state": "XID", "xid": 79, "remedy": "reboot_host", "job": ""}
    JobEvent.objects.create(
        entry="e", position=0, revision=1, kind="gpu", at=timezone.now(), node="h1", attempt=0, detail=fault
    )
    found = ada.get("nodes/h1/health").json()
    assert found["telemetry"]["gpus"] == [{"gpu": 0, "DCGM_FI_DEV_GPU_UTIL": 97.0}]
    assert [(one["gpu"], one["xid"], one["remedy"]) for one in found["faults"]] == [(3, 79, "reboot_host")]
    assert ada.get("nodes/h2/health").json()["telemetry"] is None
    problem(ada.get("nodes/h99/health"), 404)
    connections.cache().delete("gangway:telemetry:h1")
    connections.close()
