"""The main job, as a researcher does it: submit through the form, see it run in one rack on the live map, cancel it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.pages import sign_in
from tests.system import ROOT, System

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]

RUNNING_WITHIN_MS = 60_000
FREE_WITHIN_MS = 60_000


def example() -> dict[str, Any]:
    """The job of 64 GPUs that has to run as it stands; our own where it is absent."""
    shared = ROOT.parent / "shared" / "examples" / "job.json"
    return dict(json.loads((shared if shared.exists() else ROOT / "examples" / "job.json").read_text()))


def fill_in(page: Page, job: dict[str, Any]) -> None:
    page.get_by_label("Name", exact=True).fill(job["name"])
    page.get_by_label("Team").select_option(job["team"])
    page.get_by_label("Owner").fill(job.get("owner", ""))
    page.get_by_label("Priority").select_option(job["priority"])
    page.get_by_label("Time limit, hours").fill(str(job["max_runtime_hours"]))
    needs = job["resources"]
    page.get_by_label("GPUs", exact=True).fill(str(needs["gpu_count"]))
    page.get_by_label("GPU type").select_option(needs["gpu_type"])
    page.get_by_label("Where its ranks sit").select_option(job["topology_hint"])
    page.get_by_label("CPU cores a rank").fill(str(needs["cpu_per_rank"]))
    page.get_by_label("Memory a rank, GB").fill(str(needs["memory_per_rank_gb"]))
    page.get_by_label("Scratch disk a host, GB").fill(str(needs["scratch_disk_gb"]))
    page.get_by_label("Image").fill(job["image"])
    page.get_by_label("Command").fill(" ".join(job["command"]))
    page.get_by_label("Environment").fill("\n".join(f"{name}={value}" for name, value in job["env"].items()))
    saves, restarts = job["checkpoint"], job["restart_policy"]
    page.get_by_label("Checkpoint path").fill(saves["path"])
    page.get_by_label("Every, minutes").fill(str(saves["interval_minutes"]))
    page.get_by_label("Keep the last").fill(str(saves["retain_last_n"]))
    page.get_by_label("When preempted").select_option(restarts["on_preemption"])
    page.get_by_label("When a host fails").select_option(restarts["on_node_failure"])
    page.get_by_label("Restarts at most").fill(str(restarts["max_restarts"]))


def free_gpus(page: Page, gpu_type: str) -> int:
    words = page.locator(f'[data-type="{gpu_type}"] [data-free]').inner_text()
    return int("".join(filter(str.isdigit, words)))


def test_the_example_runs_on_one_rack_and_gives_its_gpus_back(page: Page, quiet_system: System) -> None:
    job = example()
    gpus = job["resources"]["gpu_count"]
    sign_in(page, quiet_system, "researcher")
    the_map = page.context.new_page()
    the_map.goto("/cluster/")
    the_map.locator('.live[data-live="fresh"]').wait_for()
    free_before = free_gpus(the_map, job["resources"]["gpu_type"])

    page.get_by_role("link", name="Submit a job").first.click()
    fill_in(page, job)
    page.get_by_role("button", name="Submit the job").click()
    page.get_by_role("heading", name=job["name"]).wait_for()
    job_id = page.locator("[data-job]").get_attribute("data-job")

    # The map was opened before; from here on nothing is reloaded.
    gang = page.context.new_page()
    gang.goto(f"/cluster/?job={job_id}")
    lit = gang.locator("#gang")
    gang.locator('#gang[data-phase="RUNNING"]').wait_for(timeout=RUNNING_WITHIN_MS)
    assert [lit.get_attribute(f"data-{what}") for what in ("hosts", "racks", "gpus")] == [
        str(gpus // 8),
        "1",
        str(gpus),
    ]
    assert job["name"] in lit.inner_text()
    page.locator("#phase", has_text="Running").wait_for(timeout=RUNNING_WITHIN_MS)
    assert free_gpus(the_map, job["resources"]["gpu_type"]) == free_before - gpus

    page.locator("summary", has_text="Cancel").click()
    page.get_by_role("button", name="Cancel the job").click()
    gang.locator('#gang[data-phase=""]').wait_for(timeout=FREE_WITHIN_MS)
    assert "holds no GPUs now" in lit.inner_text()
    page.locator("#phase", has_text="Cancelled").wait_for(timeout=FREE_WITHIN_MS)
    assert free_gpus(the_map, job["resources"]["gpu_type"]) == free_before


def test_a_wrong_password_is_refused_with_a_clear_word(page: Page, quiet_system: System) -> None:
    page.goto("/jobs/")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill("not hers")
    page.get_by_role("button", name="Sign in").click()
    assert "do not belong together" in page.get_by_role("alert").inner_text()
    assert "/sign-in/" in page.url


def test_a_job_of_another_team_is_not_there(page: Page, quiet_system: System) -> None:
    body = {**example(), "name": "not-for-ada", "team": "production-ranking"}
    body["resources"] = {**body["resources"], "gpu_count": 1}
    with quiet_system.client("admin") as admin:
        answer = admin.post("/api/v1/jobs", json=body)
        assert answer.status_code == 201, answer.text
        assert admin.post(f"/api/v1/jobs/{answer.json()['id']}/cancel").is_success  # it is in the way of other tests
    sign_in(page, quiet_system, "researcher")
    shown = page.goto(f"/jobs/{answer.json()['id']}/")
    assert shown is not None
    assert shown.status == 404
    assert "not-for-ada" not in page.content()
