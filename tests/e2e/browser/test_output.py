"""The panel of a job's output, in a real browser: what a host's agent hands in is on the page within seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from nodes.protocol import LOGS_PATH, LogPiece, LogsAnswer, LogsRequest, decode, encode
from tests.e2e.pages import job, sign_in
from tests.system import System, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.e2e
BAR = "".join(f"\rstep {step}/3" for step in range(4))
EVIL = "<img src=x onerror=alert(1)> <script>alert(2)</script>"


class Writer:
    """Writes for the ranks of one job as the agents of their hosts would."""

    def __init__(self, system: System, job_id: str, node: str) -> None:
        self._job, self._node = job_id, node
        state = json.loads((system.data / "fleet" / "agent.json").read_text())
        self._address = system.url + LOGS_PATH
        self._headers = {"Authorization": f"Bearer {state['nodes'][node]['token']}"}
        self._written: dict[int, int] = {}

    def write(self, text: str, rank: int = 0, over: bool = False) -> LogsAnswer:
        start, data = self._written.get(rank, 0), text.encode()
        self._written[rank] = start + len(data)
        piece = LogPiece(self._job, 1, rank, start, data, over)
        body = encode(LogsRequest(self._node, (piece,)))
        answer = httpx.post(self._address, content=body, headers=self._headers, timeout=20)
        assert answer.status_code == 200, answer.text
        return decode(LogsAnswer, answer.content)


@pytest.fixture(scope="module")
def running(quiet_system: System) -> tuple[str, str]:
    """A job of two ranks that runs, and its host."""
    with quiet_system.client("researcher") as ada:
        body = job("writes", quiet_system.people()["team"], 2, "A100") | {"topology_hint": "require_same_host"}
        found = ada.post("/api/v1/jobs", json=body).json()

        def detail() -> Any:
            return ada.get(f"/api/v1/jobs/{found['id']}").json()

        until(lambda: detail()["state"] == "RUNNING", 60)
        return found["id"], detail()["allocation"][0]["node"]


def test_what_a_rank_writes_is_followed_paused_and_found(
    page: Page, quiet_system: System, running: tuple[str, str], tmp_path: Path
) -> None:
    job_id, node = running
    sign_in(page, quiet_system, "researcher")
    page.goto(f"/jobs/{job_id}/")
    output = page.locator("#output")
    output.get_by_text("Nothing that its ranks wrote").wait_for()

    writer = Writer(quiet_system, job_id, node)
    writer.write("first line\n\x1b[1;31mERROR\x1b[0m it is red\n" + BAR + "\n" + EVIL + "\nGrüße\x07\n", 0)
    writer.write("the other rank\n", 1)
    log = output.locator("[data-log]")
    log.get_by_text("first line").wait_for(timeout=20_000)
    assert log.locator(".ansi-red.ansi-bold").inner_text() == "ERROR"
    lines = [line.inner_text() for line in log.locator("> div").all()]
    assert lines == ["first line", "ERROR it is red", "step 3/3", EVIL, "Grüße␇"]

    until(lambda: writer.write("", 0).every_s == 1.0, 20)
    writer.write("news\n")
    log.get_by_text("news").wait_for(timeout=5_000)

    writer.write("".join(f"line {number}\n" for number in range(400)))
    log.get_by_text("line 399").wait_for(timeout=5_000)
    assert log.evaluate("box => box.scrollHeight - box.scrollTop - box.clientHeight") < 40
    log.focus()
    page.keyboard.press("Home")
    follow = output.locator("[data-follow]")
    assert follow.get_attribute("aria-pressed") == "false"
    writer.write("while paused\n")
    output.get_by_text("paused").wait_for()
    assert log.get_by_text("while paused").count() == 0

    output.locator("[data-find]").fill("LINE 39")
    assert output.locator("[data-found]").inner_text() == "11"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert output.locator("[data-found]").inner_text() == "2 of 11"
    assert log.locator(".current").inner_text() == "line 390"
    follow.click()
    log.get_by_text("while paused").wait_for()

    with page.expect_download() as download:
        output.locator("[data-download]").click()
    file = tmp_path / "log"
    download.value.save_as(file)
    assert file.read_bytes().startswith(b"first line\n\x1b[1;31mERROR")

    output.locator("[data-rank]").select_option("1")
    log.get_by_text("the other rank").wait_for()
    assert log.get_by_text("first line").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_outsider_finds_no_output(page: Page, quiet_system: System, running: tuple[str, str]) -> None:
    job_id, _ = running
    anonymous = page.request.get(f"/jobs/{job_id}/output/", max_redirects=0)
    assert anonymous.status == 302


@pytest.mark.parametrize("width", [1440, 390])
def test_the_panel_fits(page: Page, quiet_system: System, running: tuple[str, str], width: int) -> None:
    job_id, node = running
    Writer(quiet_system, job_id, node).write("", 0)
    page.set_viewport_size({"width": width, "height": 900})
    sign_in(page, quiet_system, "researcher")
    page.goto(f"/jobs/{job_id}/")
    page.locator("#output [data-log] > div").first.wait_for(timeout=20_000)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
