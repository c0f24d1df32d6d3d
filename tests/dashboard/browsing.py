"""A headless Chromium for the page: tabs that keep everything that went wrong, fixtures to open them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.dashboard.twin import PASSWORD, Twin

playwright = pytest.importorskip("playwright.sync_api")
Axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe
playwright.expect.set_options(timeout=30_000)  # as long as its actions wait; a busy machine is no fault
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

NEEDS_BROWSER = [
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
        """Keep a picture of the whole page, once it is there: a click returns when the next page begins to load."""
        self.page.wait_for_load_state()
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=True)

    def log_in(self, role: str = "releaser") -> None:
        """Sign in with name and password."""
        self.page.goto(self.site)
        self.page.get_by_label("Name").fill(role)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(f"{self.site}/")

    def accessible(self) -> None:
        """No rule of axe is broken on the page, once it is there."""
        self.page.wait_for_load_state()
        found = Axe().run(self.page)
        assert found.violations_count == 0, found.generate_report()

    def clean(self) -> None:
        """Nothing went wrong on this page, once it is there."""
        self.page.wait_for_load_state()
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


def open_visit(browser: playwright.Browser, site: str, **options: object) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    visit = Visit(context.new_page(), site)
    visit.watch()
    yield visit
    context.close()


@pytest.fixture
def visit(browser: playwright.Browser, site: str, twin: Twin) -> Iterator[Visit]:
    """A wide light tab."""
    yield from open_visit(browser, site)


@pytest.fixture
def coloured(browser: playwright.Browser, site: str, twin: Twin, scheme: str) -> Iterator[Visit]:
    """A wide tab in the scheme."""
    yield from open_visit(browser, site, color_scheme=scheme)


@pytest.fixture
def phone(browser: playwright.Browser, site: str, twin: Twin) -> Iterator[Visit]:
    """A phone."""
    yield from open_visit(browser, site, is_mobile=True, has_touch=True, device_scale_factor=2)
