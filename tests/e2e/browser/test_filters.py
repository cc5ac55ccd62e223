"""A filter that one changes is never lost: not before the page's script runs, nor while an answer is on its way."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.e2e.pages import sign_in
from tests.system import System

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]


class Held:
    """Requests of one kind, kept from the server until they are let go."""

    def __init__(self, page: Page, pattern: str) -> None:
        self._page = page
        self._routes: list[Route] = []
        self._released = False
        page.route(pattern, self._take)

    def _take(self, route: Route) -> None:
        if self._released:
            route.continue_()
        else:
            self._routes.append(route)

    def wait(self) -> None:
        while not self._routes:
            self._page.wait_for_timeout(20)

    def let_go(self) -> None:
        self._released = True
        for route in self._routes:
            route.continue_()


@pytest.mark.parametrize("path", ["/jobs/", "/cluster/hosts/"])
def test_a_choice_made_before_the_script_runs_is_sent_when_it_does(page: Page, quiet_system: System, path: str) -> None:
    sign_in(page, quiet_system, "oncall")
    script = Held(page, "**/js/filters.js")
    page.goto(path, wait_until="commit")
    field, value = ("priority", "P1") if path == "/jobs/" else ("gpu_type", "A100")
    page.locator(f"form.filters select[name={field}]").select_option(value)
    script.wait()
    script.let_go()
    page.wait_for_url(f"**{field}={value}**")
    assert page.locator(f"form.filters select[name={field}]").input_value() == value


def test_a_choice_made_while_the_last_one_is_answered_is_kept(page: Page, quiet_system: System) -> None:
    sign_in(page, quiet_system, "oncall")
    page.goto("/jobs/")
    page.locator("[data-keys-open]").wait_for()
    answers = Held(page, "**/jobs/?*priority=P1*")
    page.locator("form.filters select[name=priority]").select_option("P1")
    answers.wait()
    page.locator("form.filters select[name=team]").select_option(quiet_system.people()["team"])
    page.get_by_label("Name or id").press_sequentially("resnet")
    answers.let_go()
    page.wait_for_url("**q=resnet**")
    asked = parse_qs(urlsplit(page.url).query)
    assert (asked["priority"], asked["team"]) == (["P1"], [quiet_system.people()["team"]])
    assert page.get_by_label("Name or id").input_value() == "resnet"


def test_what_the_browser_remembers_of_a_form_is_not_a_choice(page: Page, quiet_system: System) -> None:
    """Reloaded, or come back to, the page shows what its address says."""
    sign_in(page, quiet_system, "oncall")
    page.goto("/jobs/?priority=P1")
    page.locator("[data-keys-open]").wait_for()
    page.locator("form.filters select[name=priority]").select_option("")
    page.wait_for_url(lambda url: "priority=P1" not in url)
    page.get_by_role("link", name="Queue", exact=True).click()
    page.wait_for_url("**/queue/")
    page.go_back()
    page.locator("[data-keys-open]").wait_for()
    expect(page.locator("form.filters select[name=priority]")).to_have_value("")
    page.go_back()
    page.wait_for_url("**priority=P1")
    expect(page.locator("form.filters select[name=priority]")).to_have_value("P1")
    page.reload()
    page.locator("[data-keys-open]").wait_for()
    assert page.locator("form.filters select[name=priority]").input_value() == "P1"
    assert "priority=P1" in page.url
