"""The pages of each of the portal's people, and how to come to one by its links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.views.words import NOT_LOOKED_AT
from tests.system import System, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROLES = ("researcher", "team_admin", "oncall", "admin")
CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)
RUNS, WAITS = "pages-that-runs", "pages-that-waits"


def submit_some(system: System) -> None:
    """A job that runs, and more of another type than there is room for, so that some wait; made once."""
    with system.client("researcher") as ada:
        if not ada.get("/api/v1/jobs", params={"q": RUNS}).json()["items"]:
            most = ada.get("/api/v1/cluster").json()["gpus"]["L40S"]["total"]
            wanted = [(RUNS, 8, "A100"), *[(WAITS, most, "L40S")] * 3]
            for name, gpus, gpu_type in wanted:
                answer = ada.post("/api/v1/jobs", json=job(name, system.people()["team"], gpus, gpu_type))
                assert answer.status_code == 201, answer.text
        until(lambda: state(ada, RUNS) == "RUNNING", 60)


def job(name: str, team: str, gpus: int, gpu_type: str) -> dict[str, Any]:
    return {
        "name": name,
        "team": team,
        "image": "registry.example.com/train:1",
        "command": ["python", "train.py"],
        "resources": {"gpu_count": gpus, "gpu_type": gpu_type},
        "max_runtime_hours": 4,
        "topology_hint": "any",
    }


def state(client: Any, name: str) -> str:
    found = client.get("/api/v1/jobs", params={"q": name}).json()["items"]
    return str(found[0]["state"]) if found else NOT_LOOKED_AT


def visit(page: Page, name: str) -> None:
    """Open the page by its path, or by the links that lead to it."""
    if name.startswith("/"):
        page.goto(name)
        return
    if name == "a host":
        page.goto("/cluster/hosts/")
        page.locator("tbody th a").first.click()
    else:
        runs = name == "a job that runs"
        page.goto(f"/jobs/?whose=all&q={RUNS if runs else WAITS}&state={'RUNNING' if runs else 'PENDING'}")
        page.locator("tbody th a").first.click()
    page.locator("main h1, main h2").first.wait_for()


def sign_in(page: Page, system: System, role: str) -> None:
    person = next(one for one in system.people()["users"] if one["role"] == role)
    page.goto("/sign-in/")
    page.get_by_label("User name").fill(person["name"])
    page.get_by_label("Password").fill(person["password"])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/")


def settled(page: Page) -> None:
    """Wait for what comes after the document: the live view, the outlook of the form, a job's output."""
    for waiting in ('[data-live="waiting"]', '#outlook[aria-busy="true"]'):
        page.locator(waiting).wait_for(state="detached")
    page.get_by_text("Looking for output").wait_for(state="hidden")
    if page.locator("#outlook").count():
        page.locator("#outlook .verdict").wait_for()
