"""axe on every page of every role, in light and in dark: nothing serious, nothing critical."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.e2e.conftest import sign_in
from tests.e2e.pages import ROLES, submit_some, visit
from tests.e2e.sitemap import every_page
from tests.system import System

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

GRAVE = ("serious", "critical")
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
OTHERS = ("a job that waits", "/jobs/?q=nothing-is-called-so", "/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/", "/quotas/?at=1")
"""Other faces of the same pages: waiting, empty, not there."""


@pytest.mark.parametrize("role", ROLES)
def test_axe_finds_nothing_serious(page: Page, quiet_system: System, role: str) -> None:
    submit_some(quiet_system)
    sign_in(page, quiet_system, role)
    found = []
    for path in (*every_page(page, quiet_system).values(), *OTHERS):
        visit(page, path)
        found += faults(page, path)
    assert found == []


def test_axe_finds_nothing_serious_before_one_has_signed_in(page: Page, quiet_system: System) -> None:
    page.goto("/sign-in/")
    found = faults(page, "/sign-in/")
    page.get_by_label("User name").fill("nobody")
    page.get_by_label("Password").fill("nothing")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").wait_for()
    assert [*found, *faults(page, "a refused sign-in")] == []


def faults(page: Page, name: str) -> list[str]:
    """One line for each grave finding, in both schemes."""
    settled(page)
    found = []
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        violations = Axe().run(page).response["violations"]
        found += [_told(name, scheme, one) for one in violations if one["impact"] in GRAVE]
    return found


def settled(page: Page) -> None:
    """What comes after the document has come: the live view, and the outlook of the form."""
    for waiting in ('[data-live="waiting"]', '#outlook[aria-busy="true"]'):
        page.locator(waiting).wait_for(state="detached")


def _told(name: str, scheme: str, violation: dict[str, Any]) -> str:
    nodes = violation["nodes"]
    first = nodes[0]
    return f"{name} ({scheme}): {violation['id']}, {len(nodes)} times: {first['html'][:200]}: {first['failureSummary']}"
