"""A running system without a workload, and a browser that looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import pytest

from tests.e2e.pages import CHROMIUM, FLAGS
from tests.system import System

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="package")
def quiet_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """64 hosts, the demo's people, and nobody who submits anything.

    All tests here share it: each leaves the hosts as it found them.
    """
    running = System(tmp_path_factory.mktemp("pages") / "data")
    try:
        running.start()
        yield running
    finally:
        running.kill()


@pytest.fixture(scope="package")
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
