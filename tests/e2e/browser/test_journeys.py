"""What the portal's people do in a day, by mouse and by keyboard alone; and how near every page is to the start."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.e2e.pages import ROLES, RUNS, sign_in, submit_some
from tests.e2e.sitemap import every_page
from tests.system import System

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]

RUNNING_WITHIN_MS = 60_000


def sign_in_by_keyboard(page: Page, system: System, role: str) -> None:
    """The page begins in the field for the name."""
    person = next(one for one in system.people()["users"] if one["role"] == role)
    page.goto("/sign-in/")
    page.keyboard.type(person["name"])
    page.keyboard.press("Tab")
    page.keyboard.type(person["password"])
    page.keyboard.press("Enter")
    page.get_by_role("navigation", name="Main").wait_for()
    listening(page)


def listening(page: Page) -> None:
    """Wait until the page's script answers to keys: it then shows the way to their sheet."""
    page.locator("[data-keys-open]").wait_for()


def follow(page: Page, link: str) -> None:
    """Click the link, and wait until the page that it leads to listens."""
    with page.expect_navigation(wait_until="commit"):
        page.get_by_role("link", name=link, exact=True).first.click()
    listening(page)


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def tab_to(page: Page, label: str, most: int = 40) -> None:
    """Go on with Tab until the field of that label has the focus."""
    field = page.get_by_label(label, exact=True)
    for _ in range(most):
        if field.evaluate("field => field === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{label} is not reached by {most} tabs")


def fill_in(page: Page, name: str) -> None:
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("GPUs", exact=True).fill("8")
    page.get_by_label("GPU type").select_option("A100")
    page.get_by_label("Image").fill("registry.example.com/train:1")
    page.get_by_label("Command").fill("python train.py")


# --- the researcher ---------------------------------------------------------------------------------------------


def test_a_researcher_by_mouse(page: Page, quiet_system: System) -> None:
    sign_in(page, quiet_system, "researcher")
    follow(page, "Submit a job")
    fill_in(page, "by-mouse")
    page.get_by_role("button", name="Submit the job").click()
    page.locator("#phase", has_text="Running").wait_for(timeout=RUNNING_WITHIN_MS)

    follow(page, "Jobs")
    page.get_by_label("Pick by-mouse").check()
    page.locator("[data-picked]", has_text="1 job picked").wait_for()
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_text("This cannot be undone.").wait_for()
    page.get_by_role("button", name="Cancel: 1 job").click()
    toast = page.locator("[data-toast]", has_text="1 job is being cancelled.")
    toast.wait_for()
    page.reload()
    assert toast.count() == 0  # a toast comes once


def test_a_researcher_by_keyboard(page: Page, quiet_system: System) -> None:
    sign_in_by_keyboard(page, quiet_system, "researcher")
    press(page, "g", "s")
    page.wait_for_url("**/submit/")
    for label, typed in (
        ("Name", "by-keyboard"),
        ("GPUs", "8"),
        ("GPU type", "A100"),
        ("Image", "registry.example.com/train:1"),
        ("Command", "python train.py"),
    ):
        tab_to(page, label)
        if label == "GPUs":
            press(page, "Control+a")
        page.keyboard.type(typed)
    for _ in range(40):
        if page.get_by_role("button", name="Submit the job").evaluate("it => it === document.activeElement"):
            break
        press(page, "Tab")
    press(page, "Enter")
    page.locator("#phase", has_text="Running").wait_for(timeout=RUNNING_WITHIN_MS)

    listening(page)
    press(page, "g", "j")
    page.wait_for_url("**/jobs/")
    listening(page)
    press(page, "j", "x", "c")
    page.get_by_role("button", name="Cancel: 1 job").wait_for()
    press(page, "Enter")
    page.locator("[data-toast]", has_text="1 job is being cancelled.").wait_for()


# --- the team admin ---------------------------------------------------------------------------------------------


def test_a_team_admin_by_mouse(page: Page, quiet_system: System) -> None:
    submit_some(quiet_system)
    team = quiet_system.people()["team"]
    sign_in(page, quiet_system, "team_admin")
    follow(page, "Jobs")
    page.get_by_label("Whose").select_option("All that I may see")
    page.wait_for_url("**whose=all**")
    page.locator("select[name=team]").select_option(team)
    page.wait_for_url(f"**team={team}**")
    page.locator("summary", has_text="Save this view").click()
    page.get_by_label("Name", exact=True).fill("The big team")
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator("[data-toast]").wait_for()
    listening(page)
    for link in ("Overview", "Jobs", "The big team", RUNS):
        follow(page, link)
    page.locator("#phase", has_text="Running").wait_for(timeout=RUNNING_WITHIN_MS)


def test_a_team_admin_by_keyboard(page: Page, quiet_system: System) -> None:
    submit_some(quiet_system)
    sign_in_by_keyboard(page, quiet_system, "team_admin")
    press(page, "/")
    page.keyboard.type(RUNS)
    press(page, "Enter")
    page.wait_for_url("**/search/**")
    for _ in range(40):
        if page.get_by_role("link", name=RUNS).first.evaluate("link => link === document.activeElement"):
            break
        press(page, "Tab")
    press(page, "Enter")
    page.get_by_role("heading", name=RUNS).wait_for()
    listening(page)
    press(page, "?")
    page.get_by_role("dialog", name="Keys").wait_for()
    press(page, "Escape")
    page.get_by_role("dialog", name="Keys").wait_for(state="hidden")


def test_single_keys_can_be_switched_off(page: Page, quiet_system: System) -> None:
    sign_in_by_keyboard(page, quiet_system, "team_admin")
    press(page, "?")
    page.get_by_role("button", name="Off").click()
    press(page, "Escape", "g", "j", "/")
    assert page.evaluate("document.activeElement.id") != "search"
    page.reload()
    press(page, "g", "j")
    assert urlsplit(page.url).path == "/"


# --- on-call ----------------------------------------------------------------------------------------------------


def test_on_call_by_mouse(page: Page, quiet_system: System) -> None:
    submit_some(quiet_system)
    sign_in(page, quiet_system, "oncall")
    follow(page, "Hosts")
    page.locator("tbody th a").first.click()
    page.get_by_role("link", name="Show on the map").wait_for()
    listening(page)
    host = page.locator("main h1").inner_text()
    page.get_by_role("link", name="Show on the map").click()
    page.locator('.live[data-live="fresh"]').wait_for()
    page.locator("#panel").get_by_role("heading", name=host).wait_for()


def test_on_call_by_keyboard(page: Page, quiet_system: System) -> None:
    sign_in_by_keyboard(page, quiet_system, "oncall")
    press(page, "g", "c")
    page.wait_for_url("**/cluster/")
    page.locator('.live[data-live="fresh"]').wait_for()
    the_map = page.locator("#map")
    for _ in range(60):
        if the_map.evaluate("map => map === document.activeElement"):
            break
        press(page, "Tab")
    press(page, "ArrowRight", "ArrowDown", "Enter")
    page.locator("#panel h2").wait_for()
    press(page, "Escape")
    page.locator("#panel").wait_for(state="hidden")


# --- everybody --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
def test_every_page_is_two_clicks_from_the_start(page: Page, quiet_system: System, role: str) -> None:
    submit_some(quiet_system)
    sign_in(page, quiet_system, role)
    near = links(page)
    reached = set(near)
    for path in one_of_each_kind(near):
        answer = page.goto(path)
        assert answer is not None and answer.status < 400, path
        reached |= links(page)
    wanted = every_page(page, quiet_system)
    assert len(wanted) > 15, "the addresses were not understood"
    assert {name: path for name, path in wanted.items() if name not in map(kind_of, reached)} == {}


def links(page: Page) -> set[str]:
    """Where a click leads within the portal: links, menus too, and forms that ask for a page."""
    found = page.eval_on_selector_all("a[href]", "links => links.map(link => link.href)")
    found += page.eval_on_selector_all("form", "forms => forms.filter(f => f.method === 'get').map(f => f.action)")
    here = urlsplit(page.url)
    within = [urlsplit(link) for link in found]
    return {f"{link.path}?{link.query}" for link in within if link.netloc == here.netloc}


def one_of_each_kind(paths: set[str]) -> list[str]:
    """The pages behind the links, one host for all of them; not what programs read."""
    kinds = {kind_of(path): path for path in sorted(paths, reverse=True) if not path.startswith(("/api/", "/static/"))}
    return [path for kind, path in kinds.items() if kind is not None]


def kind_of(path: str) -> str | None:
    from django.urls import Resolver404, resolve

    try:
        return resolve(path.partition("?")[0]).url_name
    except Resolver404:
        return None
