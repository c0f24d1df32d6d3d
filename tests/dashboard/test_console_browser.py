"""The console in headless Chromium: every page in both schemes under axe, by keyboard, on a phone, without script."""

from __future__ import annotations

import pytest

from services.dashboard.sessions import COOKIE
from tests.dashboard.browsing import (
    NEEDS_BROWSER,
    Visit,
    browser,
    coloured,
    open_visit,
    phone,
    playwright,
    scheme,
    visit,
)
from tests.dashboard.twin import EVIL, Twin

__all__ = ["browser", "coloured", "phone", "scheme", "visit"]
pytestmark = NEEDS_BROWSER

PAGES = {
    "releases": "/console/releases",
    "rollout": "/console/rollouts/r-2",
    "confirm": "/console/rollouts/r-2/rollback",
    "devices": "/console/devices?q=d-2",
    "device": "/console/devices/d-8",
    "audit": "/console/audit?check=true",
    "settings": "/console/settings",
    "setting-change": "/console/settings/change?name=z_threshold",
    "account": "/console/account",
    "drift": "/console/drift",
    "clusters": "/console/clusters",
    "cluster": "/console/clusters/c-1",
    "bundles": "/console/bundles",
    "bundle": "/console/bundles/b-3",
    "compare": "/console/bundles/compare?build=b-3&build=b-1",
    "models": "/console/models",
    "model": "/console/models/b-2",
    "model-search": "/console/models/b-3",
    "flows": "/console/flows",
    "flow": "/console/flows/00000000-0000-0000-0000-000000000002",
    "flow-retry": "/console/flows/00000000-0000-0000-0000-000000000002/retry",
    "cohort": "/console/drift/npu-4t/indoor-night",
    "accounts": "/console/accounts",
    "account-of": "/console/accounts/operator",
    "account-change": "/console/accounts/operator/role",
    "account-new": "/console/new-account",
    "token-of": "/console/accounts/operator/tokens/00bb",
    "kill": "/console/kill-switch",
    "build": "/console/builds/b-2",
    "missing": "/console/devices/nobody",
}


def test_every_page_is_accessible_in_both_schemes_and_breaks_no_policy(
    coloured: Visit, scheme: str, twin: Twin
) -> None:
    coloured.page.goto(f"{coloured.site}/login")
    coloured.accessible()
    coloured.log_in("admin")
    coloured.accessible()
    for name, path in PAGES.items():
        answer = coloured.page.goto(coloured.site + path)
        assert answer is not None
        coloured.accessible()
        coloured.shoot(f"{name}-{scheme}")
        assert coloured.page.evaluate("window.violations") == []
    coloured.errors = [error for error in coloured.errors if "404" not in error]
    coloured.clean()


def test_every_page_fits_a_phone(phone: Visit) -> None:
    phone.page.set_viewport_size({"width": 390, "height": 844})
    phone.page.goto(f"{phone.site}/login")
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    phone.log_in("admin")
    for name, path in PAGES.items():
        phone.page.goto(phone.site + path)
        assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390, name
        phone.accessible()
        phone.shoot(f"phone-{name}")


def test_a_release_is_rolled_back_by_keyboard_without_script(
    browser: playwright.Browser, site: str, twin: Twin
) -> None:
    for tab in open_visit(browser, site, java_script_enabled=False):
        page = tab.page
        page.goto(site)
        page.get_by_label("Name").fill("releaser")
        page.get_by_label("Name").press("Tab")
        page.keyboard.type("right-password")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Releases").press("Enter")
        page.get_by_role("link", name="2026.11.3").press("Enter")
        page.get_by_role("link", name="Roll back…").press("Enter")
        page.get_by_label("Reason").fill("complaints from the field")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{site}/console/rollouts/r-2")
        playwright.expect(page.get_by_role("heading", level=1).get_by_text("rolled back")).to_have_count(1)
        assert twin.sent == [("rollback", "complaints from the field")]


def test_devices_are_searched_and_opened(visit: Visit) -> None:
    visit.log_in("viewer")
    visit.page.get_by_role("link", name="Devices").click()
    visit.page.get_by_label("Id begins with").fill("d-23")
    visit.page.get_by_label("Id begins with").press("Enter")
    visit.page.get_by_role("link", name="d-231").click()
    playwright.expect(visit.page.get_by_role("heading", level=1)).to_have_text("d-231")
    playwright.expect(visit.page.get_by_role("link", name="Kill switch…")).to_have_count(0)
    visit.clean()


def test_the_search_of_a_model_is_drawn_with_its_front_its_choice_and_its_limit(coloured: Visit, scheme: str) -> None:
    coloured.log_in("viewer")
    coloured.page.get_by_role("link", name="Models").click()
    coloured.page.get_by_role("link", name="2026.11.3").click()
    coloured.page.wait_for_selector("[data-drawn=yes] .main-svg")
    playwright.expect(coloured.page.locator(".scatterlayer .trace")).to_have_count(3)
    playwright.expect(coloured.page.locator(".annotation-text")).to_have_text("limit 1.04")
    coloured.page.get_by_text("Networks as a table").click()
    playwright.expect(
        coloured.page.get_by_role("table", name="Networks of the search").get_by_role("row")
    ).to_have_count(58)
    coloured.accessible()
    coloured.shoot(f"model-search-drawn-{scheme}")
    coloured.clean()


def test_a_threshold_is_changed_with_a_reason(visit: Visit, twin: Twin) -> None:
    visit.log_in("operator")
    visit.page.get_by_role("link", name="Settings").click()
    visit.page.get_by_role("link", name="Change… z_threshold").click()
    visit.page.get_by_label("For:").fill("npu-4t/*")
    visit.page.get_by_label("New value").fill("4.25")
    visit.page.get_by_label("Reason").fill("week 48 said so")
    visit.page.get_by_role("button", name="Change").click()
    visit.page.get_by_text("week 48 said so").wait_for()
    assert twin.thresholds[0]["values"] == {"z_threshold": 4.25}
    visit.clean()


def test_a_token_is_made_and_another_session_ended(visit: Visit, twin: Twin) -> None:
    other = str(twin.enter("operator")["token"])
    visit.log_in("operator")
    visit.page.get_by_role("link", name="operator (operator)").click()
    playwright.expect(visit.page.get_by_role("rowheader", name=EVIL)).to_have_count(2)  # shown as text
    visit.page.get_by_role("button", name=f"End {EVIL}").click()
    playwright.expect(visit.page.get_by_role("rowheader", name=EVIL)).to_have_count(1)
    assert other not in twin.sessions
    visit.page.get_by_label("what is it for").fill("nightly report")
    visit.page.get_by_role("button", name="Make the token").click()
    playwright.expect(visit.page.locator("#made")).to_have_text("el_00aa_shown-once")
    visit.accessible()
    visit.clean()


def test_scripts_cannot_read_the_cookie_and_it_is_gone_after_signing_out(visit: Visit) -> None:
    visit.log_in("viewer")
    assert visit.page.evaluate("document.cookie") == ""
    visit.page.get_by_role("button", name="Sign out").click()
    visit.page.get_by_role("heading", name="Sign in").wait_for()
    assert COOKIE not in {cookie["name"] for cookie in visit.page.context.cookies()}


@pytest.mark.parametrize(("locale", "heading"), [("zh-CN", "登录"), ("en-GB", "Sign in"), ("fr-FR", "Sign in")])
def test_the_page_speaks_the_browsers_language(
    browser: playwright.Browser, site: str, twin: Twin, locale: str, heading: str
) -> None:
    for tab in open_visit(browser, site, locale=locale):
        tab.page.goto(f"{site}/login")
        playwright.expect(tab.page.get_by_role("heading", level=1)).to_have_text(heading)
        tab.accessible()


def test_the_switch_changes_the_language_and_stays_on_the_page(visit: Visit) -> None:
    visit.log_in("admin")
    visit.page.goto(f"{visit.site}/console/devices")
    visit.page.get_by_role("button", name="中文").click()
    playwright.expect(visit.page.get_by_role("heading", level=1)).to_have_text("设备")
    assert visit.page.url == f"{visit.site}/console/devices"
    playwright.expect(visit.page.locator("html")).to_have_attribute("lang", "zh-Hans")
    for name, path in PAGES.items():
        visit.page.goto(visit.site + path)
        visit.shoot(f"zh-{name}")
    visit.page.goto(visit.site)
    visit.shoot("zh-overview")
    visit.page.get_by_role("button", name="English").click()
    playwright.expect(visit.page.locator("html")).to_have_attribute("lang", "en")
