"""A running system without a workload, and a browser that looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents import joining, storage
from tests.e2e.hosts import Hosts
from tests.e2e.training import BUCKET
from tests.system import System

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


@pytest.fixture(scope="module")
def quiet_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """64 hosts, the demo's people, and nobody who submits anything."""
    running = System(tmp_path_factory.mktemp("pages") / "data")
    try:
        running.start()
        yield running
    finally:
        running.kill()


@pytest.fixture(scope="package")
def bare_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A control plane without hosts and without a workload, for all tests that bring real agents of their own."""
    chosen = {"GANGWAY_FLEET": "off", "GANGWAY_WORKLOAD": "off"}
    running = System(tmp_path_factory.mktemp("bare") / "data", chosen)
    try:
        running.start()
        yield running
    finally:
        running.kill()


@pytest.fixture(scope="package")
def join_token(bare_system: System) -> str:
    return joining(bare_system, 1_000)


@pytest.fixture(scope="package")
def objects(bare_system: System) -> Any:
    """The storage of the system without hosts, with the bucket in which trainings save."""
    return storage(bare_system, BUCKET)


@pytest.fixture
def hosts(bare_system: System, join_token: str, tmp_path: Path) -> Iterator[Hosts]:
    """Brings hosts into the system that has none, and takes them away after the test."""
    brought = Hosts(bare_system, tmp_path / "hosts", join_token)
    try:
        yield brought
    finally:
        brought.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if which(CHROMIUM) is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser, quiet_system: System, tmp_path: Path) -> Iterator[Page]:
    """A page of a person who has not signed in. Whatever the browser complains of fails the test."""
    context = browser.new_context(base_url=quiet_system.url, viewport={"width": 1440, "height": 900})
    shown = context.new_page()
    complaints: list[str] = []
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.on(
        "console",
        lambda said: complaints.append(said.text) if said.type == "error" and "status of 4" not in said.text else None,
    )
    yield shown
    context.close()
    assert complaints == []


def sign_in(page: Page, system: System, role: str) -> None:
    person = next(one for one in system.people()["users"] if one["role"] == role)
    page.goto("/sign-in/")
    page.get_by_label("User name").fill(person["name"])
    page.get_by_label("Password").fill(person["password"])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/")
