"""The panel beside the submit form, and the job as text that goes with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from django.test import Client

from portal.forms import job_text
from portal.views import present
from scheduler.models import Job, Outbox
from tests.portal.pages.test_submit import TYPED

pytestmark = pytest.mark.usefixtures("fleet")


def ask(who: Client, **typed: str) -> dict[str, Any]:
    answer = who.post("/submit/outlook/", {**TYPED, **typed})
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def test_what_fits_is_said_to_start_now_and_where(ada: Client) -> None:
    html = ask(ada)["html"]
    assert "It starts now" in html
    assert "2 hosts of rack" in html
    assert "200 Gb/s" in html
    assert not Job.objects.exists()
    assert not Outbox.objects.exists()


def test_an_outlook_of_an_old_state_says_so(ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cannot be read" not in ask(ada)["html"]
    monkeypatch.setattr(present, "freshness", lambda: present.Freshness(False, 0))
    html = ask(ada)["html"]
    assert "The live state cannot be read just now." in html
    assert "It starts now" in html


def test_a_form_that_is_not_finished_is_told_its_place_all_the_same(ada: Client) -> None:
    found = ask(ada, name="", image="", command="")
    assert "It starts now" in found["html"]
    assert "name" not in yaml.safe_load(found["text"])


def test_what_never_fits_offers_what_does(ada: Client) -> None:
    html = ask(ada, gpu_count="48")["html"]
    assert "It could never run" in html
    assert 'value="gpu_count=32"' in html


def test_what_is_no_job_yet_is_said_with_the_fields_name(ada: Client) -> None:
    assert "Not a job yet" in ask(ada, max_runtime_hours="soon")["html"]
    assert "Time limit, hours: must be a number" in ask(ada, max_runtime_hours="soon")["html"]


@pytest.mark.parametrize(("style", "read"), [("yaml", yaml.safe_load), ("json", json.loads)])
def test_the_text_is_the_body_that_the_api_takes(ada: Client, style: str, read: Any) -> None:
    body = read(ask(ada, format=style)["text"])
    assert body["resources"] == {"gpu_count": 16, "gpu_type": "H100", "cpu_per_rank": 8, "memory_per_rank_gb": 64}
    assert body["command"] == ["python", "-m", "train", "--note", "two words"]
    assert job_text.read(job_text.written(body, style)) == body


def test_text_fills_every_field_and_empties_the_others(ada: Client) -> None:
    text = "name: x\nresources: {gpu_count: 24}\nenv: {A: '1'}\n"
    fields = ada.post("/submit/fields/", {"text": text}).json()["fields"]
    assert (fields["name"], fields["gpu_count"], fields["env"], fields["image"]) == ("x", "24", "A=1", "")


def test_text_that_is_no_job_is_refused_with_a_word(ada: Client) -> None:
    assert "no job" not in ada.post("/submit/fields/", {"text": "a: ["}).json()["error"]
    assert "YAML" in ada.post("/submit/fields/", {"text": "a: ["}).json()["error"]


def test_without_scripts_one_tries_and_takes(ada: Client) -> None:
    tried = ada.post("/submit/", {**TYPED, "gpu_count": "48", "try": "1"})
    assert "It could never run" in tried.content.decode()
    taken = ada.post("/submit/", {**TYPED, "gpu_count": "48", "take": "gpu_count=32"})
    assert taken.context["form"]["gpu_count"].value() == "32"
    assert "It starts now" in taken.content.decode()
    assert not Job.objects.exists()


def test_a_starter_fills_the_form(ada: Client) -> None:
    form = ada.get("/submit/?like=finetune").context["form"]
    assert (form["gpu_count"].value(), form["topology_hint"].value()) == ("8", "require_same_host")


def test_the_limits_of_the_team_come_with_the_page(ada: Client) -> None:
    assert ada.get("/submit/").context["limits"] == {"vision": {"p0": False, "most": {"A100": 8, "H100": 32}}}


def test_somebody_not_signed_in_is_asked_to(client: Client) -> None:
    assert client.post("/submit/outlook/", TYPED).status_code == 302
