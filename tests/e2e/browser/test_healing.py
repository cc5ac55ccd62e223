"""The live map heals by itself: after a message that was lost, a server that was restarted, a laptop that slept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import expect

from tests.e2e.pages import sign_in
from tests.system import System, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, WebSocketRoute

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]

WITHIN_MS = 60_000
HOUR_MS = 3_600_000


class Line:
    """The page's sockets, through which the test can lose what the server says."""

    def __init__(self, page: Page) -> None:
        self.lose_deltas, self.silent, self.opened = 0, False, 0
        page.route_web_socket("**/ws/cluster/", self._join)

    def _join(self, socket: WebSocketRoute) -> None:
        self.opened += 1
        if self.opened > 1:
            self.silent = False  # a line that is opened anew works
        server = socket.connect_to_server()
        number = self.opened

        def pass_on(message: str | bytes) -> None:
            if number != self.opened or self.silent:
                return
            if self.lose_deltas and json.loads(message)["type"] == "delta":
                self.lose_deltas -= 1
                return
            socket.send(message)

        server.on_message(pass_on)


@pytest.fixture
def hosts(quiet_system: System) -> Iterator[list[str]]:
    """Some hosts; whatever was cordoned takes work again afterwards."""
    with quiet_system.client("oncall") as client:
        names = [host["name"] for host in client.get("/api/v1/nodes").json()["items"]]
        yield names
        for name in names[:3]:
            assert client.post(f"/api/v1/nodes/{name}/uncordon", json={"reason": "tested"}).is_success


def cordon(system: System, host: str) -> None:
    with system.client("oncall") as client:
        assert client.post(f"/api/v1/nodes/{host}/cordon", json={"reason": "to be seen"}).is_success


def open_map(page: Page, system: System) -> None:
    sign_in(page, system, "oncall")
    page.goto("/cluster/")
    fresh(page)


def fresh(page: Page) -> None:
    page.locator('.live[data-live="fresh"]').wait_for(timeout=WITHIN_MS)


def shows_cordoned(page: Page, count: int) -> None:
    expect(page.locator("#troubled-words")).to_have_text(f"{count} cordoned", timeout=WITHIN_MS)


def test_a_message_that_was_lost(page: Page, quiet_system: System, hosts: list[str]) -> None:
    line = Line(page)
    open_map(page, quiet_system)
    line.lose_deltas = 1
    cordon(quiet_system, hosts[0])
    wait_for(page, lambda: line.lose_deltas == 0)
    cordon(quiet_system, hosts[1])
    shows_cordoned(page, 2)
    fresh(page)
    assert line.opened == 1, "a gap needs no new socket"


def test_a_server_that_was_restarted(browser: Browser, quiet_system: System, hosts: list[str]) -> None:
    """In a context of its own: that the browser complains of refused connections meanwhile is right."""
    context = browser.new_context(base_url=quiet_system.url)
    page = context.new_page()
    open_map(page, quiet_system)
    before = quiet_system.children()["web"]
    before.kill()
    page.locator('.live[data-live="stale"]').wait_for(timeout=WITHIN_MS)
    until(lambda: answers(quiet_system), 60)
    cordon(quiet_system, hosts[0])
    fresh(page)
    shows_cordoned(page, 1)
    context.close()


def test_a_laptop_that_slept(page: Page, quiet_system: System, hosts: list[str]) -> None:
    """Its socket is dead and nobody has told it: it notices by the clock alone."""
    line = Line(page)
    page.clock.install()
    open_map(page, quiet_system)
    line.silent = True
    cordon(quiet_system, hosts[0])
    page.clock.fast_forward(HOUR_MS)
    wait_for(page, lambda: line.opened == 2)
    fresh(page)
    shows_cordoned(page, 1)


def wait_for(page: Page, condition: Callable[[], bool]) -> None:
    """Let the browser's events come until the condition holds; the test's time limit ends it otherwise."""
    while not condition():
        page.wait_for_timeout(50)


def answers(system: System) -> bool:
    try:
        return httpx.get(f"{system.url}/readyz").is_success
    except httpx.HTTPError:
        return False
