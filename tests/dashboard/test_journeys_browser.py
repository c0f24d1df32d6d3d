"""What people do in the console, from the page that they land on to the end, in headless Chromium.

Together with `test_browser` (pause, resume, roll back, kill switch, sign out) and `test_console_browser` (devices,
thresholds, tokens) every journey has a test; each leaves its pictures in build/dashboard/.
"""

from __future__ import annotations

import pytest

from contracts.wire import RolloutState
from tests.dashboard.browsing import NEEDS_BROWSER, Visit, browser, playwright, visit
from tests.dashboard.twin import EVIL, Twin
from tests.dashboard.twin.people import ONE_TIME

__all__ = ["browser", "visit"]
pytestmark = NEEDS_BROWSER

LISTS = {
    "now": "/",
    "releases": "/console/releases",
    "devices": "/console/devices",
    "drift": "/console/drift",
    "clusters": "/console/clusters",
    "bundles": "/console/bundles",
    "models": "/console/models",
    "flows": "/console/flows",
    "audit": "/console/audit",
    "settings": "/console/settings",
    "accounts": "/console/accounts",
}


def test_a_rollout_advances_while_it_is_watched(visit: Visit, twin: Twin) -> None:
    visit.log_in()
    visit.page.locator("article.rollout").first.get_by_role("link", name="2026.11.3").click()
    rail = visit.page.get_by_role("list", name="Stages")
    playwright.expect(rail.locator("[aria-current=step]")).to_contain_text("25 %")
    now = twin.rollouts["r-2"]
    left = now.stages[1].model_copy(update={"left": now.created + 20_500, "confirmed": 58})
    last = now.stages[2].model_copy(update={"entered": now.created + 20_500, "targeted": 240, "confirmed": 61})
    twin.rollouts["r-2"] = now.model_copy(update={"stage": 2, "stages": (now.stages[0], left, last), "version": 5})
    playwright.expect(rail.locator("[aria-current=step]")).to_contain_text("100 %", timeout=8_000)
    playwright.expect(rail).to_contain_text("61 of 240 confirmed")
    visit.accessible()
    visit.shoot("journey-rollout-advanced")
    done = last.model_copy(update={"confirmed": 240, "left": now.created + 20_900})
    finished = {"state": RolloutState.COMPLETED, "stages": (now.stages[0], left, done), "version": 6}
    twin.rollouts["r-2"] = twin.rollouts["r-2"].model_copy(update=finished)
    playwright.expect(visit.page.get_by_role("heading", level=1)).to_contain_text("completed", timeout=8_000)
    visit.clean()


def test_a_second_person_approves_a_release(visit: Visit, twin: Twin) -> None:
    twin.rollouts["r-2"] = twin.rollouts["r-2"].model_copy(update={"state": RolloutState.DRAFT})
    visit.log_in()
    visit.page.get_by_role("link", name="Releases").click()
    visit.page.get_by_role("link", name="2026.11.3").click()
    visit.page.get_by_role("link", name="Approve…").click()
    visit.accessible()
    visit.page.get_by_label("Reason").fill("looked at the gate")
    visit.page.get_by_role("button", name="Approve").click()
    visit.page.wait_for_url(f"{visit.site}/console/rollouts/r-2")
    playwright.expect(visit.page.get_by_role("heading", level=1)).to_contain_text("approved")
    assert twin.sent == [("approve", "looked at the gate")]
    visit.shoot("journey-approved")
    visit.clean()


def test_an_alarm_is_read_down_to_its_clusters_and_their_members(visit: Visit) -> None:
    visit.log_in("viewer")
    visit.page.get_by_role("navigation", name="Pages").get_by_role("link", name="Drift").click()
    visit.page.get_by_role("link", name="indoor-night").first.click()
    playwright.expect(visit.page.get_by_role("heading", level=1)).to_contain_text("indoor-night")
    playwright.expect(visit.page.locator("ul.alarms")).to_contain_text("2 of 3 days")
    visit.accessible()
    visit.shoot("journey-alarm")
    visit.page.get_by_role("link", name="#1", exact=True).click()
    visit.page.wait_for_url(f"{visit.site}/console/clusters/c-1")
    playwright.expect(visit.page.locator("main")).to_contain_text("s-3")
    visit.accessible()
    visit.shoot("journey-alarm-cluster")
    visit.clean()


def test_two_bundles_are_compared(visit: Visit) -> None:
    visit.log_in("viewer")
    visit.page.get_by_role("link", name="Bundles").click()
    for name in ("compare 2026.11.1", "compare 2026.11.3"):
        visit.page.get_by_role("checkbox", name=name).check()
    visit.page.get_by_role("button", name="Compare the two").click()
    playwright.expect(visit.page.locator("main")).to_contain_text("npu-4t/model 360x640")
    playwright.expect(visit.page.get_by_text("slower").or_(visit.page.get_by_text("faster")).first).to_be_visible()
    visit.accessible()
    visit.shoot("journey-compared")
    visit.clean()


def test_an_administrator_lets_somebody_in_who_then_chooses_a_password(visit: Visit, twin: Twin) -> None:
    visit.log_in("admin")
    visit.page.get_by_role("link", name="Accounts").click()
    visit.page.get_by_role("link", name="New account…").click()
    visit.page.get_by_label("Name").fill("bo")
    visit.page.get_by_label("Role").select_option("releaser")
    visit.page.get_by_label("Reason").fill("joined us")
    visit.page.get_by_role("button", name="Make the account").click()
    playwright.expect(visit.page.locator("#one-time")).to_have_text(ONE_TIME)
    visit.accessible()
    visit.shoot("journey-one-time")
    visit.page.get_by_role("link", name="To the account").click()
    visit.page.get_by_role("link", name="Change role…").click()
    visit.page.get_by_label("New role").select_option("viewer")
    visit.page.get_by_label("Reason").fill("not on the rota yet")
    visit.page.get_by_role("button", name="Change role").click()
    visit.page.wait_for_url(f"{visit.site}/console/accounts/bo")
    assert twin.roles["bo"] == "viewer"
    playwright.expect(visit.page.get_by_role("heading", level=1)).not_to_contain_text(EVIL)
    visit.page.get_by_role("button", name="Sign out").click()
    visit.page.get_by_role("heading", name="Sign in").wait_for()
    visit.page.get_by_label("Name").fill("bo")
    visit.page.get_by_label("Password").fill("right-password")
    visit.page.get_by_role("button", name="Sign in").click()
    visit.page.wait_for_url(f"{visit.site}/console/account")
    playwright.expect(visit.page.get_by_role("alert")).to_contain_text("one-time password")
    visit.accessible()
    visit.page.get_by_label("Present password").fill("right-password")
    for label in ("New password, 12", "New password once more"):
        visit.page.get_by_label(label).fill("a-long-new-phrase")
    visit.page.get_by_role("button", name="Change it").click()
    playwright.expect(visit.page.get_by_role("alert")).to_have_count(0)
    visit.page.get_by_role("link", name="Devices").click()
    playwright.expect(visit.page.get_by_role("heading", level=1)).to_have_text("Devices")
    visit.clean()


@pytest.mark.parametrize("state", ["empty", "down"])
def test_every_list_is_accessible_when_it_is_empty_and_when_its_service_is_down(
    visit: Visit, twin: Twin, state: str
) -> None:
    visit.log_in("admin")
    if state == "empty":
        for part in (twin.rollouts, twin.builds, twin.searches):
            part.clear()
        for rows in (twin.devices, twin.days, twin.alarms, twin.clusters, twin.flows, twin.alerts, twin.thresholds):
            rows.clear()
    else:
        twin.down |= {"/releases", "/drift", "/curation", "/builds", "/telemetry", "/identity/v1/accounts"}
    for name, path in LISTS.items():
        answer = visit.page.goto(visit.site + path)
        assert answer is not None
        assert answer.status == 200, name
        shown = visit.page.inner_text("main")
        assert ("does not answer" in shown) == (state == "down"), name
        visit.accessible()
        visit.shoot(f"{state}-{name}")
    visit.clean()
