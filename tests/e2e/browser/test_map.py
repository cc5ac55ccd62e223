"""The live map by keyboard alone, as on-call uses it: go to a host, cordon it with a reason, take it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.pages import sign_in
from tests.system import System

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]


def test_oncall_cordons_a_host_by_keyboard_and_sees_it_live(page: Page, quiet_system: System) -> None:
    sign_in(page, quiet_system, "oncall")
    page.goto("/cluster/")
    page.locator('.live[data-live="fresh"]').wait_for()
    troubled, said, panel = page.locator("#troubled"), page.locator("#said"), page.locator("#panel")

    page.locator("#map").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    words = said.inner_text()
    host = words.split(" · ")[0]
    assert words.startswith(f"{host} · GPU 1. Free")
    page.keyboard.press("Enter")
    panel.get_by_role("heading", name=host).wait_for()
    assert f"node={host}" in page.url

    panel.locator("summary", has_text="Cordon").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("fan noise")
    page.keyboard.press("Enter")
    panel.get_by_text(f"{host} takes no new work.").wait_for()
    page.locator("#troubled", has_text="1").wait_for()
    assert page.locator("#troubled-words").inner_text() == "1 cordoned"

    panel.get_by_role("button", name="Take new work again").focus()
    page.keyboard.press("Enter")
    panel.get_by_text(f"{host} takes work again.").wait_for()
    page.locator("#troubled", has_text="0").wait_for()
    page.keyboard.press("Escape")
    panel.wait_for(state="hidden")
    assert troubled.inner_text() == "0"


def test_the_table_says_the_same_without_a_script(page: Page, quiet_system: System) -> None:
    sign_in(page, quiet_system, "researcher")
    plain = page.context.browser.new_context(  # type: ignore[union-attr]
        base_url=quiet_system.url, java_script_enabled=False, storage_state=page.context.storage_state()
    )
    try:
        table = plain.new_page()
        table.goto("/cluster/hosts/?gpu_type=A100")
        assert table.locator("#results tbody tr").count() == 12
        table.goto("/cluster/")
        table.get_by_role("link", name="The table of hosts").click()
        assert table.get_by_role("heading", name="Hosts").is_visible()
    finally:
        plain.close()
