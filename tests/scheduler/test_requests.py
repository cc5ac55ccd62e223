"""A job request: what is taken, what is refused, with which field, reason and remedy."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.core.types import CheckpointSpec, Hint, NvLink, OnLoss
from scheduler.fields import FieldError
from scheduler.requests import JobRequest, TeamRights, parse, schema

EXAMPLE = Path(__file__).parents[3] / "shared" / "examples" / "job.json"
TEAM = "research-foundation-models"
TEAMS = {
    TEAM: TeamRights(ceilings=(("foundation", {"A100": 64}), ("research", {"A100": 512, "L40S": 800}))),
    "ads": TeamRights(p0=True),
    "closed": TeamRights(may_submit=False),
}
TYPES = {"H100": 3520, "A100": 1000, "L40S": 500}


def body(**changes: Any) -> dict[str, Any]:
    """A small valid body; a change named ``a__b`` is of ``b`` in ``a``, one to ``...`` leaves the field out."""
    found: dict[str, Any] = {
        "name": "run",
        "team": TEAM,
        "image": "registry.example.com/train:1",
        "command": ["python", "train.py"],
        "resources": {"gpu_count": 8, "gpu_type": "H100"},
        "checkpoint": {"path": "s3://saves/run/", "interval_minutes": 30},
    }
    for path, value in changes.items():
        *steps, last = path.split("__")
        place = found
        for step in steps:
            place = place.setdefault(step, {})
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return found


def accepted(sent: Any) -> JobRequest:
    request = parse(sent, TEAMS, TYPES, owner="me@example.com")
    assert isinstance(request, JobRequest), request
    return request


def refused(sent: Any) -> list[FieldError]:
    errors = parse(sent, TEAMS, TYPES)
    assert isinstance(errors, list), errors
    return errors


@pytest.mark.skipif(not EXAMPLE.exists(), reason="the shared examples are not beside the repository")
def test_the_example_job_is_taken_as_it_stands() -> None:
    spec = accepted(json.loads(EXAMPLE.read_text())).to_spec("J", 1000)
    assert (spec.gpus, spec.gpu_type, spec.priority, spec.max_runtime_ms) == (64, "H100", 1, 168 * 3_600_000)
    assert (spec.cpu_per_rank, spec.memory_per_rank_gb, spec.scratch_gb) == (16, 256, 2000)
    assert spec.checkpoint == CheckpointSpec(1_800_000, 20_000, "s3://my-checkpoints/llama-70b/run-47/", 3)
    assert spec.launch.command == ("python", "-m", "train", "--config", "llama-70b.yaml")
    assert (spec.owner, spec.hint, spec.id, spec.submitted_ms) == (
        "ada@example.com",
        Hint.PREFER_SAME_RACK,
        "J",
        1000,
    )


def test_what_is_left_out_has_its_default() -> None:
    request = accepted(body())
    assert (request.owner, request.priority, request.hint) == ("me@example.com", 2, Hint.PREFER_SAME_RACK)
    assert (request.on_preemption, request.on_node_failure) == (OnLoss.RESUME, OnLoss.RESUME)
    assert (request.max_restarts, request.launch.env, request.max_runtime_ms) == (20, {}, 86_400_000)


def test_a_job_without_a_checkpoint_starts_anew() -> None:
    request = accepted(body(checkpoint=None))
    assert request.checkpoint is None
    assert (request.on_preemption, request.on_node_failure) == (OnLoss.RESTART, OnLoss.RESTART)


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        pytest.param({"resources__gpu_count": 0}, "resources.gpu_count", "0 is outside", id="no gpus"),
        pytest.param({"resources__gpu_count": -1}, "resources.gpu_count", "-1 is outside", id="minus one gpu"),
        pytest.param({"resources__gpu_count": 1.5}, "resources.gpu_count", "whole number", id="one and a half gpus"),
        pytest.param({"resources__gpu_count": 1e9}, "resources.gpu_count", "whole number", id="1e9 is no integer"),
        pytest.param({"resources__gpu_count": 10**9}, "resources.gpu_count", "holds 3520", id="a billion gpus"),
        pytest.param({"resources__gpu_count": 10**300}, "resources.gpu_count", "outside", id="a huge integer"),
        pytest.param({"resources__gpu_count": "64"}, "resources.gpu_count", "a string", id="digits in a string"),
        pytest.param({"resources__gpu_count": True}, "resources.gpu_count", "a boolean", id="true is not 1"),
        pytest.param({"resources__gpu_count": None}, "resources.gpu_count", "null", id="null gpus"),
        pytest.param({"resources__gpu_type": "H900"}, "resources.gpu_type", "no GPUs of type", id="unknown type"),
        pytest.param({"resources__gpu_type": ...}, "resources.gpu_type", "is missing", id="no type"),
        pytest.param({"resources": []}, "resources", "must be an object", id="resources as a list"),
        pytest.param({"resources__color": 1}, "resources.color", "no field", id="unknown nested field"),
        pytest.param({"colour": 1}, "colour", "no field", id="unknown field"),
        pytest.param({"name": ...}, "name", "is missing", id="no name"),
        pytest.param({"name": ""}, "name", "empty", id="empty name"),
        pytest.param({"name": "   "}, "name", "empty", id="blank name"),
        pytest.param({"name": "a\x00b"}, "name", "U+0000", id="NUL in the name"),
        pytest.param({"name": "a\nb"}, "name", "U+000A", id="line end in the name"),
        pytest.param({"name": "x" * 129}, "name", "129 characters", id="long name"),
        pytest.param({"team": "nobody"}, "team", "no team", id="unknown team"),
        pytest.param({"team": 7}, "team", "must be a string", id="team as a number"),
        pytest.param({"owner": "ada"}, "owner", "not an e-mail", id="owner without a domain"),
        pytest.param({"image": "an image"}, "image", "not an image", id="blank in the image"),
        pytest.param({"command": []}, "command", "must not be empty", id="empty command"),
        pytest.param({"command": [""]}, "command[0]", "names no program", id="empty program"),
        pytest.param({"command": "python train.py"}, "command", "must be a list", id="command as a string"),
        pytest.param({"command": ["a", 1]}, "command[1]", "must be a string", id="number in the command"),
        pytest.param({"command": ["a", "b\x00"]}, "command[1]", "U+0000", id="NUL in the command"),
        pytest.param({"command": ["a"] * 257}, "command", "257 items", id="endless command"),
        pytest.param({"topology_hint": "near"}, "topology_hint", "not known", id="unknown hint"),
        pytest.param({"topology_wait_minutes": -1}, "topology_wait_minutes", "outside", id="negative patience"),
        pytest.param(
            {"topology_wait_minutes": 5, "topology_hint": "any"}, "topology_wait_minutes", "says nothing", id="patience"
        ),
        pytest.param({"resources__nvlink": True}, "resources.nvlink", "must be a string", id="NVLink as a flag"),
        pytest.param({"resources__nvlink": "yes"}, "resources.nvlink", "not known", id="unknown wish for NVLink"),
        pytest.param({"array": {}}, "array.count", "is missing", id="an array of unknown length"),
        pytest.param({"array": {"count": 501}}, "array.count", "outside", id="too long an array"),
        pytest.param({"array": {"count": 2, "throttle": 0}}, "array.throttle", "outside", id="none at a time"),
        pytest.param({"array": {"count": 100}, "name": "x" * 125}, "name", "no room", id="no room for numbers"),
        pytest.param({"priority": "P4"}, "priority", "not known", id="unknown priority"),
        pytest.param({"priority": 1}, "priority", "must be a string", id="priority as a number"),
        pytest.param({"max_runtime_hours": 0}, "max_runtime_hours", "outside", id="no time"),
        pytest.param({"max_runtime_hours": 1e300}, "max_runtime_hours", "outside", id="endless time"),
        pytest.param({"max_runtime_hours": 10**400}, "max_runtime_hours", "outside", id="a time beyond floats"),
        pytest.param({"max_runtime_hours": float("nan")}, "max_runtime_hours", "outside", id="no number"),
        pytest.param({"checkpoint__path": "/mnt/a"}, "checkpoint.path", "not an S3", id="path on disk"),
        pytest.param({"checkpoint__path": "s3://"}, "checkpoint.path", "not an S3", id="no bucket"),
        pytest.param({"checkpoint__path": "https://a/b"}, "checkpoint.path", "not an S3", id="https is not S3"),
        pytest.param({"checkpoint__interval_minutes": 0}, "checkpoint.interval_minutes", "outside", id="no interval"),
        pytest.param({"checkpoint__interval_minutes": -5}, "checkpoint.interval_minutes", "outside", id="negative"),
        pytest.param({"checkpoint__interval_minutes": 1e9}, "checkpoint.interval_minutes", "outside", id="absurd"),
        pytest.param({"checkpoint__retain_last_n": 0}, "checkpoint.retain_last_n", "outside", id="keep none"),
        pytest.param({"restart_policy__max_restarts": -1}, "restart_policy.max_restarts", "outside", id="restarts"),
        pytest.param({"restart_policy__on_preemption": "no"}, "restart_policy.on_preemption", "not known", id="enum"),
        pytest.param({"env__A": 1}, "env.A", "must be a string", id="number in the environment"),
        pytest.param({"env": {"A-B": "1"}}, "env.A-B", "not a name", id="dash in a variable's name"),
        pytest.param({"env": {"A=B": "1"}}, "env.'A=B'", "not a name", id="equals sign in a variable's name"),
        pytest.param({"env__RANK": "0"}, "env.RANK", "set by Gangway", id="a variable that ranks are given"),
        pytest.param({"env__A": "\x1b[0m"}, "env.A", "U+001B", id="escape in the environment"),
    ],
)
def test_one_thing_wrong_is_one_error_at_its_place(changes: dict[str, Any], field: str, reason: str) -> None:
    (error,) = refused(body(**changes))
    assert error.field == field
    assert reason in error.reason
    assert error.remedy


@pytest.mark.parametrize("sent", [None, 1, "x", [], True], ids=repr)
def test_a_body_that_is_no_object_is_refused_whole(sent: Any) -> None:
    (error,) = refused(sent)
    assert error.field == ""
    assert "must be an object" in error.reason


def test_everything_wrong_is_told_at_once() -> None:
    errors = refused(body(name=1, resources__gpu_count=0, priority="P9"))
    assert [error.field for error in errors] == ["name", "resources.gpu_count", "priority"]


@pytest.mark.parametrize(
    ("changes", "field", "code", "word"),
    [
        pytest.param({"team": "closed"}, "team", "forbidden", "not a member", id="a team of others"),
        pytest.param({"priority": "P0"}, "priority", "forbidden", "may not be P0 for", id="P0 without the right"),
        pytest.param(
            {"resources__gpu_count": 3521}, "resources.gpu_count", "NEVER_FITS", "3520", id="more than a zone holds"
        ),
        pytest.param(
            {"resources": {"gpu_count": 3521, "gpu_type": "any"}},
            "resources.gpu_count",
            "NEVER_FITS",
            "3520",
            id="more than any zone holds of any type",
        ),
        pytest.param(
            {"resources": {"gpu_count": 65, "gpu_type": "A100"}},
            "resources.gpu_count",
            "QUOTA_CEILING",
            "ceiling of foundation: 64",
            id="above the tightest ceiling on the path",
        ),
    ],
)
def test_what_can_never_be_says_so(changes: dict[str, Any], field: str, code: str, word: str) -> None:
    (error,) = refused(body(**changes))
    assert (error.field, str(error.code)) == (field, code)
    assert word in error.reason


def test_any_type_is_bounded_by_the_type_that_leaves_most_room() -> None:
    assert accepted(body(resources={"gpu_count": 900, "gpu_type": "any"})).gpu_type == "any"
    bounded = {TEAM: TeamRights(ceilings=(("t", {"H100": 8, "A100": 64, "L40S": 16}),))}
    errors = parse(body(resources={"gpu_count": 65, "gpu_type": "any"}), bounded, TYPES)
    assert isinstance(errors, list)
    assert "ceiling of t: 64" in errors[0].reason


def test_a_checkpoint_takes_less_than_its_interval() -> None:
    checkpoint = accepted(body(checkpoint__interval_minutes=0.5)).checkpoint
    assert checkpoint is not None
    assert (checkpoint.every_ms, checkpoint.takes_ms) == (30_000, 15_000)


def test_p0_is_taken_from_a_team_with_the_right() -> None:
    assert accepted(body(team="ads", priority="P0")).priority == 0


def test_resuming_needs_a_checkpoint() -> None:
    errors = refused(body(checkpoint=None, restart_policy__on_preemption="resume_from_checkpoint"))
    assert [error.field for error in errors] == ["restart_policy.on_preemption"]


def test_the_hash_is_of_the_meaning() -> None:
    plain = body()
    spelt_out = dict(reversed(body(max_runtime_hours=24.0, priority="P2", env={}).items()))
    assert accepted(plain).body_hash() == accepted(spelt_out).body_hash()
    assert accepted(plain).body_hash() != accepted(body(env__A="1")).body_hash()


def test_parsing_leaves_the_body_alone() -> None:
    sent = body(env__A="1")
    before = copy.deepcopy(sent)
    assert accepted(sent).body == before
    assert sent == before


def test_the_schema_forbids_what_the_check_forbids() -> None:
    declared = schema()
    assert declared["additionalProperties"] is False
    assert set(declared["required"]) == {"name", "team", "image", "command", "resources"}
    assert declared["properties"]["resources"]["properties"]["gpu_count"]["minimum"] == 1
    assert declared["properties"]["priority"]["default"] == "P2"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


# The first draw of a text builds Unicode's tables; on a busy machine that takes a second.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(list(schema()["properties"])), JSON))
def test_no_json_makes_it_fall_over(changes: dict[str, Any]) -> None:
    for error in refused({**body(), **changes, "surely-unknown": 1}):
        assert error.reason
        assert error.remedy
        (error.field + error.reason).encode()


def test_patience_and_nvlink_reach_the_core() -> None:
    spec = accepted(body(topology_wait_minutes=7.5, resources__nvlink="require")).to_spec("J", 0)
    assert (spec.topology_wait_ms, spec.nvlink) == (450_000, NvLink.REQUIRE)


def test_an_array_begins_with_its_first_job() -> None:
    request = accepted(body(array={"count": 3, "throttle": 2}))
    spec = request.to_spec("J", 0)
    assert (request.count, spec.array, spec.throttle, spec.name) == (3, "J", 2, "run[0]")


def test_what_requests_had_not_at_first_leaves_their_hash_as_it_was() -> None:
    plain = accepted(body()).body_hash()
    spelt = body(topology_wait_minutes=None, array=None, resources__nvlink="any")
    assert accepted(spelt).body_hash() == plain
    for more in ({"topology_wait_minutes": 0}, {"array": {"count": 1}}, {"resources__nvlink": "prefer"}):
        assert accepted(body(**more)).body_hash() != plain
