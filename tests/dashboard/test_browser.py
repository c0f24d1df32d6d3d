"""The page in headless Chromium: an operator's journey, no console error, no request that leaves the host.

Screenshots are left in build/dashboard/.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from contracts.wire import RolloutState
from tests.dashboard.twin import PASSWORD, TOKEN, Twin

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SHOTS = Path(__file__).resolve().parents[2] / "build" / "dashboard"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
]
VIOLATIONS = """
window.violations = [];
document.addEventListener('securitypolicyviolation',
    (event) => window.violations.push(event.violatedDirective + ' ' + event.blockedURI));
"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; apt-get install chromium"),
]


@dataclass
class Visit:
    """A browser tab that keeps everything that went wrong."""

    page: playwright.Page
    site: str
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Begin to listen."""
        home = urlsplit(self.site).netloc
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "request",
            lambda request: self.foreign.append(request.url) if urlsplit(request.url).netloc != home else None,
        )
        self.page.add_init_script(VIOLATIONS)

    def shoot(self, name: str) -> None:
        """Keep a picture of the whole page."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=True)

    def log_in(self, role: str = "releaser") -> None:
        """Sign in with name and password."""
        self.page.goto(self.site)
        self.page.get_by_label("Name").fill(role)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(f"{self.site}/")

    def clean(self) -> None:
        """Nothing went wrong on this page."""
        assert self.errors == []
        assert self.foreign == []
        assert self.page.evaluate("window.violations") == []


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    """One Chromium for this module."""
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield made
        made.close()


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    """Light and dark."""
    return str(request.param)


def _visit(browser: playwright.Browser, site: str, **options: object) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    visit = Visit(context.new_page(), site)
    visit.watch()
    yield visit
    context.close()


@pytest.fixture
def visit(browser: playwright.Browser, site: str, twin: Twin) -> Iterator[Visit]:
    """A wide light tab."""
    yield from _visit(browser, site)


@pytest.fixture
def coloured(browser: playwright.Browser, site: str, twin: Twin, scheme: str) -> Iterator[Visit]:
    """A wide tab in the scheme."""
    yield from _visit(browser, site, color_scheme=scheme)


@pytest.fixture
def phone(browser: playwright.Browser, site: str, twin: Twin) -> Iterator[Visit]:
    """A phone."""
    yield from _visit(browser, site, is_mobile=True, has_touch=True, device_scale_factor=2)


def test_the_overview_draws_its_chart_under_the_strict_policy(coloured: Visit, scheme: str) -> None:
    coloured.log_in()
    coloured.page.wait_for_selector("[data-drawn=yes] .main-svg")
    assert coloured.page.locator(".scatterlayer .trace").count() == 5
    position = coloured.page.evaluate("getComputedStyle(document.querySelector('.main-svg')).position")
    assert position == "absolute"  # Plotly's own style sheet is in force
    coloured.shoot(f"overview-{scheme}")
    coloured.clean()


def test_live_parts_refresh_alone(visit: Visit, twin: Twin) -> None:
    visit.log_in()
    assert visit.page.locator("article.rollout").first.get_by_text("running").count() == 1
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
        assert visit.page.get_by_role("heading", level=1).get_by_text(after).count() == 1
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
    twin.down.add("/releases/v1/devices")
    twin.down.add("/builds")
    visit.log_in()
    assert visit.page.get_by_text("the database does not answer").count() == 2
    visit.shoot("partial")
    visit.clean()


def test_log_out_works_without_script(browser: playwright.Browser, site: str) -> None:
    for visit in _visit(browser, site, java_script_enabled=False):
        visit.page.goto(site)
        visit.shoot("login")
        visit.page.get_by_text("Use an access token").click()
        visit.page.get_by_label("Token").fill(TOKEN)
        visit.page.get_by_role("button", name="Use token").click()
        assert visit.page.get_by_text("Cohorts as a table").is_visible()
        visit.page.get_by_role("button", name="Sign out").click()
        assert visit.page.get_by_role("heading", name="Sign in").is_visible()
