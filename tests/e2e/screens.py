"""Takes the pictures of the README and the docs: each page of each person, from a system with a workload.

    python -m tests.e2e.screens [DIRECTORY]     # docs/screens by default

Starts `manage.py up` with the small fleet and its workload in a scratch directory, lets it fill, and looks at every
page in a browser: in light or dark, wide or as on a telephone.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from playwright.sync_api import sync_playwright

from tests.e2e.pages import CHROMIUM, FLAGS, settled, sign_in, submit_some, visit
from tests.system import ROOT, System, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FILLED, FILLING_S = 0.6, 120.0
"""How much of the fleet the workload should hold when the pictures are taken, and how long that may take."""
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@dataclass(frozen=True, slots=True)
class Screen:
    """``page`` is a path or a name that ``tests.e2e.pages.visit`` knows."""

    name: str
    role: str
    page: str
    scheme: Literal["light", "dark"] = "light"
    narrow: bool = False


SCREENS = (
    Screen("submit", "researcher", "/submit/"),
    Screen("job", "researcher", "a job that runs"),
    Screen("job-narrow", "researcher", "a job that runs", "dark", narrow=True),
    Screen("queue", "oncall", "/queue/"),
    Screen("quotas", "team_admin", "/quotas/", "dark"),
    Screen("cluster", "oncall", "/cluster/"),
    Screen("start", "researcher", "/"),
    Screen("jobs", "researcher", "/jobs/?whose=all"),
    Screen("waiting", "researcher", "a job that waits"),
    Screen("share", "team_admin", "/quotas/share/"),
    Screen("usage", "team_admin", "/usage/"),
    Screen("budgets", "team_admin", "/usage/budgets/"),
    Screen("start-oncall", "oncall", "/", "dark"),
    Screen("host", "oncall", "a host"),
    Screen("hosts", "oncall", "/cluster/hosts/"),
    Screen("incidents", "oncall", "/incidents/"),
    Screen("planned", "oncall", "/planned/"),
    Screen("cluster-narrow", "oncall", "/cluster/", "dark", narrow=True),
)


def main() -> int:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "screens"
    target.mkdir(parents=True, exist_ok=True)
    with _system() as system, sync_playwright() as playwright:
        submit_some(system)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for screen in SCREENS:
            _take(browser, system, screen, target / f"{screen.name}.png")
            sys.stdout.write(f"{screen.name}\n")
        browser.close()
    return 0


@contextmanager
def _system() -> Iterator[System]:
    with tempfile.TemporaryDirectory(prefix="gangway-screens-") as scratch:
        system = System(Path(scratch) / "data", {"GANGWAY_WORKLOAD": "on"})
        try:
            system.start()
            until(lambda: _held(system) >= FILLED, FILLING_S)
            yield system
        finally:
            system.stop()


def _held(system: System) -> float:
    """The share of the fleet's GPUs that jobs hold."""
    with system.client("oncall") as client:
        gpus = client.get("/api/v1/cluster").json()["gpus"].values()
    return float(sum(kind["used"] for kind in gpus) / sum(kind["total"] for kind in gpus))


def _take(browser: Browser, system: System, screen: Screen, file: Path) -> None:
    context = browser.new_context(
        base_url=system.url,
        color_scheme=screen.scheme,
        viewport=NARROW if screen.narrow else WIDE,  # type: ignore[arg-type]
        timezone_id="Europe/Berlin",
    )
    page = context.new_page()
    sign_in(page, system, screen.role)
    visit(page, screen.page)
    settled(page)
    page.screenshot(path=file)
    context.close()


if __name__ == "__main__":
    sys.exit(main())
