"""The page in headless Chromium: an operator's journey, no console error, no request that leaves the host.

Screenshots are left in build/dashboard/.
"""

from __future__ import annotations

from contracts.wire import RolloutState
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
from tests.dashboard.twin import TOKEN, Twin

__all__ = ["browser", "coloured", "phone", "scheme", "visit"]
pytestmark = NEEDS_BROWSER


def test_the_overview_draws_its_chart_under_the_strict_policy(coloured: Visit, scheme: str) -> None:
    coloured.log_in()
    coloured.page.wait_for_selector("[data-drawn=yes] .main-svg")
    playwright.expect(coloured.page.locator(".scatterlayer .trace")).to_have_count(5)
    position = coloured.page.evaluate("getComputedStyle(document.querySelector('.main-svg')).position")
    assert position == "absolute"  # Plotly's own style sheet is in force
    coloured.shoot(f"overview-{scheme}")
    coloured.clean()


def test_live_parts_refresh_alone(visit: Visit, twin: Twin) -> None:
    visit.log_in()
    playwright.expect(visit.page.locator("article.rollout").first.get_by_text("running")).to_have_count(1)
    twin.rollouts["r-2"] = twin.rollouts["r-2"].model_copy(update={"state": RolloutState.COMPLETED, "stage": 2})
    playwright.expect(visit.page.locator("article.rollout").first).to_contain_text("completed", timeout=8_000)
    playwright.expect(visit.page.locator("svg.loop.wide")).to_contain_text("completed", timeout=8_000)
    visit.clean()


def test_pause_resume_and_roll_back_by_keyboard_and_mouse(visit: Visit, twin: Twin) -> None:
    visit.log_in()
    for label, after in (("Pause", "paused"), ("Resume", "running"), ("Roll back", "rolled back")):
        visit.page.goto(f"{visit.site}/console/rollouts/r-2")
        visit.page.get_by_role("link", name=f"{label}…").click()
        visit.page.get_by_label("Reason").fill(f"{label} in the test")
        if label == "Roll back":
            visit.shoot("confirm")
        visit.page.get_by_label("Reason").press("Tab")
        visit.page.keyboard.press("Enter")
        visit.page.wait_for_url(f"{visit.site}/console/rollouts/r-2")
        playwright.expect(visit.page.get_by_role("heading", level=1).get_by_text(after)).to_have_count(1)
    assert [verb for verb, _ in twin.sent] == ["pause", "resume", "rollback"]
    visit.shoot("rollout")
    visit.clean()


def test_the_kill_switch_stops_everything_only_with_the_word(visit: Visit, twin: Twin) -> None:
    visit.log_in()
    visit.page.get_by_role("link", name="Kill switch…").click()
    visit.page.get_by_label("Reason").fill("smoke from a device")
    visit.page.get_by_label("type stop").fill("stop")
    visit.page.get_by_role("button", name="Stop all devices").click()
    visit.page.get_by_role("heading", name="Done").wait_for()
    assert twin.killed
    visit.clean()


def test_a_blocked_build_reads_down_to_its_reason(visit: Visit) -> None:
    visit.log_in()
    visit.page.get_by_role("link", name="2026.11.2").click()
    visit.page.get_by_text("the calibration does not fit").wait_for()
    visit.shoot("build-blocked")
    visit.clean()


def test_the_page_fits_a_phone(phone: Visit) -> None:
    phone.page.set_viewport_size({"width": 390, "height": 844})
    phone.log_in()
    phone.page.wait_for_selector("[data-drawn=yes]")
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    phone.shoot("phone")
    phone.clean()


def test_a_service_that_is_down_has_a_state_of_its_own(visit: Visit, twin: Twin) -> None:
    twin.down.add("/releases/v1/standing")
    twin.down.add("/builds")
    visit.log_in()
    playwright.expect(visit.page.get_by_text("the database does not answer")).to_have_count(
        3
    )  # fleet and alerts come from one answer
    visit.shoot("partial")
    visit.clean()


def test_log_out_works_without_script(browser: playwright.Browser, site: str) -> None:
    for tab in open_visit(browser, site, java_script_enabled=False):
        tab.page.goto(site)
        tab.shoot("login")
        tab.page.get_by_text("Use an access token").click()
        tab.page.get_by_label("Token").fill(TOKEN)
        tab.page.get_by_role("button", name="Use token").click()
        playwright.expect(tab.page.get_by_text("Cohorts as a table")).to_be_visible()
        tab.page.get_by_role("button", name="Sign out").click()
        playwright.expect(tab.page.get_by_role("heading", name="Sign in")).to_be_visible()
