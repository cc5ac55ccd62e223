"""The submit form: what it makes of what is typed, and where it shows what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from portal.forms.submit import field_of, initial_of, number
from scheduler.models import Job, Outbox

TYPED = {
    "name": "vit-l",
    "team": "vision",
    "owner": "",
    "priority": "P2",
    "gpu_count": "16",
    "gpu_type": "H100",
    "cpu_per_rank": "8",
    "memory_per_rank_gb": "64",
    "scratch_disk_gb": "",
    "topology_hint": "prefer_same_rack",
    "max_runtime_hours": "1.5",
    "image": "registry.example.com/vit:1",
    "command": "python -m train --note 'two words'",
    "env": "A=1\n\nB=x=y",
    "checkpoint_path": "s3://bucket/vit/",
    "checkpoint_interval_minutes": "30",
    "checkpoint_retain_last_n": "3",
    "on_preemption": "",
    "on_node_failure": "",
    "max_restarts": "20",
}

pytestmark = pytest.mark.usefixtures("fleet")


def test_a_submitted_form_is_a_job_with_its_intent_on_the_way(ada: Client) -> None:
    answer = ada.post("/submit/", TYPED)
    job = Job.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"/jobs/{job.pk}/")
    assert job.spec["command"] == ["python", "-m", "train", "--note", "two words"]
    assert job.spec["env"] == {"A": "1", "B": "x=y"}
    assert job.spec["resources"] == {"gpu_count": 16, "gpu_type": "H100", "cpu_per_rank": 8, "memory_per_rank_gb": 64}
    assert (job.owner, job.max_runtime_ms) == ("ada@example.com", 5_400_000)
    assert Outbox.objects.filter(key__endswith=job.pk).count() <= 1


def test_patience_nvlink_and_an_array_are_typed_too(ada: Client) -> None:
    wishes = {"topology_wait_minutes": "15", "nvlink": "require", "array_count": "3", "array_throttle": "2"}
    answer = ada.post("/submit/", {**TYPED, **wishes})
    first, *others = Job.objects.order_by("pk")
    assert answer["Location"] == f"/jobs/{first.pk}/"
    assert (first.name, len(others)) == ("vit-l[0]", 2)
    assert (first.spec["topology_wait_minutes"], first.spec["array"]) == (15, {"count": 3, "throttle": 2})
    page = ada.get(f"/jobs/{first.pk}/").content.decode()
    assert "waits up to 15 min for one rack" in page
    assert "3 pending" in page
    assert "at most 2 at a time" in page
    listed = ada.get("/jobs/", {"array": first.pk}).content.decode()
    assert "vit-l[2]" in listed


def test_the_same_page_sent_twice_is_one_job(ada: Client) -> None:
    first, second = (ada.post("/submit/", {**TYPED, "once": "page-1"}) for _ in range(2))
    assert Job.objects.count() == 1
    assert first["Location"] == second["Location"]


def test_the_same_page_sent_with_other_values_makes_nothing_and_says_so(ada: Client) -> None:
    ada.post("/submit/", {**TYPED, "once": "page-1"})
    answer = ada.post("/submit/", {**TYPED, "once": "page-1", "gpu_count": "8"})
    assert answer.status_code == 409
    assert "sent before with other values" in answer.content.decode()
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    ("typed", "field", "says"),
    [
        pytest.param({"name": ""}, "name", "Fill this in.", id="no name"),
        pytest.param({"gpu_count": "1.5"}, "gpu_count", "Must be a whole number", id="half a GPU"),
        pytest.param({"gpu_count": "0"}, "gpu_count", "0 is outside", id="no GPU"),
        pytest.param({"gpu_count": "lots"}, "gpu_count", "Must be a whole number", id="words for a number"),
        pytest.param({"gpu_count": "64"}, "gpu_count", "64 GPUs never fit", id="more than a zone holds"),
        pytest.param({"array_throttle": "2"}, "array_count", "Is missing", id="a throttle of no array"),
        pytest.param({"topology_wait_minutes": "soon"}, "topology_wait_minutes", "Must be a number", id="patience"),
        pytest.param({"priority": "P0"}, "priority", "May not be P0 for", id="P0 without the right"),
        pytest.param({"command": "python 'half"}, "command", "Cannot be split into words", id="open quotation"),
        pytest.param({"env": "A=1\nB"}, "env", "Line 2 has no", id="env without ="),
        pytest.param({"env": "A=1\nA=2"}, "env", "Line 2 sets A again", id="env twice"),
        pytest.param({"env": "RANK=1"}, "env", "RANK is set by Gangway", id="env that Gangway sets"),
        pytest.param({"checkpoint_path": "/tmp/x"}, "checkpoint_path", "is not an S3 address", id="no S3 path"),
        pytest.param({"checkpoint_interval_minutes": "0"}, "checkpoint_interval_minutes", "0 minutes", id="interval"),
        pytest.param({"team": "speech"}, "team", "Select a valid choice", id="another team"),
        pytest.param({"name": "a\x00b"}, "name", "Null characters", id="NUL"),
        pytest.param(
            {"checkpoint_path": "", "on_preemption": "resume_from_checkpoint"},
            "on_preemption",
            "There is no checkpoint to resume from",
            id="resume without a checkpoint",
        ),
    ],
)
def test_what_is_wrong_stands_beside_its_field(ada: Client, typed: dict[str, str], field: str, says: str) -> None:
    answer = ada.post("/submit/", {**TYPED, **typed})
    assert answer.status_code == 422
    assert says in answer.context["form"].errors[field][0]
    assert f'id="id_{field}_error"' in answer.content.decode()
    assert not Job.objects.exists()


def test_what_was_typed_stays_when_it_is_refused(ada: Client) -> None:
    page = ada.post("/submit/", {**TYPED, "gpu_count": "many"}).content.decode()
    assert 'value="many"' in page
    assert "--note &#x27;two words&#x27;" in page


def test_a_copy_asks_for_the_same(ada: Client) -> None:
    ada.post("/submit/", TYPED)
    first = Job.objects.get()
    form = ada.get(f"/submit/?from={first.pk}").context["form"]
    ada.post("/submit/", {name: form[name].value() or "" for name in form.fields})
    second = Job.objects.exclude(pk=first.pk).get()
    assert second.body_hash == first.body_hash


def test_nobody_copies_what_they_may_not_see(ada: Client, eve: Client) -> None:
    ada.post("/submit/", TYPED)
    assert eve.get(f"/submit/?from={Job.objects.get().pk}").status_code == 404


@pytest.mark.parametrize(
    ("pasted", "says"),
    [
        pytest.param("{", "This is not JSON", id="cut short"),
        pytest.param("[1]", "A job is an object", id="a list"),
        pytest.param("name", "A job is an object", id="a word"),
        pytest.param("[" * 100_000, "nested too deeply", id="nested too deep"),
        pytest.param("- " * 40_000, "nested too deeply", id="nested too deep in lines"),
        pytest.param('{"a":' * 15_000, "nested too deeply", id="nested too deep in JSON"),
        pytest.param("a: b: c", "This is not YAML in line 1", id="no YAML"),
        pytest.param("a: &x [1]\nb: *x", "Aliases", id="an alias"),
        pytest.param("x" * 200_000, "longer than", id="too long"),
    ],
)
def test_what_cannot_fill_the_form_is_refused_with_a_word(ada: Client, pasted: str, says: str) -> None:
    answer = ada.post("/submit/", {"fill": "1", "text": pasted})
    assert says in answer.context["text_error"]


def test_a_pasted_job_fills_the_form_and_submits_nothing(ada: Client) -> None:
    pasted = '{"name": "pasted", "resources": {"gpu_count": 24}, "command": ["a", "b c"], "env": 3}'
    form = ada.post("/submit/", {"fill": "1", "text": pasted}).context["form"]
    assert (form["name"].value(), form["gpu_count"].value(), form["command"].value()) == ("pasted", "24", "a 'b c'")
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("resources.gpu_count", "gpu_count"),
        ("command[3]", "command"),
        ("env.HOME", "env"),
        ("checkpoint", None),
        ("name", "name"),
        ("", None),
    ],
)
def test_each_place_in_the_body_has_its_field(path: str, field: str | None) -> None:
    assert field_of(path) == field


@pytest.mark.parametrize(
    ("typed", "meant"), [("64", 64), ("1.5", 1.5), ("-1", -1), ("1e9", "1e9"), ("6 4", "6 4"), ("٣", "٣")]
)
def test_numbers_are_read_as_json_would(typed: str, meant: Any) -> None:
    assert number(typed) == meant
    assert type(number(typed)) is type(meant)


def test_a_body_of_odd_shapes_fills_what_it_can() -> None:
    assert initial_of({"resources": 5, "checkpoint": None, "name": ["x"], "priority": "P1"}) == {
        "name": '["x"]',
        "priority": "P1",
    }


def test_somebody_without_a_team_is_told_what_to_do(tree: None, make_user_without_team: Callable[[], Client]) -> None:
    assert "You belong to no team yet" in make_user_without_team().get("/submit/").content.decode()


@pytest.fixture
def make_user_without_team() -> Callable[[], Client]:
    from tests.portal.pages.conftest import signed_in
    from tests.portal.people import make_user

    return lambda: signed_in(make_user("new"))
