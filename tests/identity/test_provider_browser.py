"""Sign-in at an independent identity provider in Chromium, on the whole platform: there, back, and in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.identity import oidc
from services.identity.limits import provider_settings
from tests.dashboard.browsing import NEEDS_BROWSER, browser, open_visit, playwright
from tests.support.http import LiveServer
from tests.support.identity_provider import CLIENT_ID, independent_provider

__all__ = ["browser"]
pytestmark = NEEDS_BROWSER
USERS = [
    {"sub": "u-ada", "preferred_username": "ada", "groups": ["ml-admins"]},
    {"sub": "u-eve", "preferred_username": "eve", "groups": ["sales"]},
]


@pytest.fixture
def site(live_server: LiveServer) -> Iterator[str]:
    """The platform, with the provider set up."""
    with independent_provider(USERS) as issuer, pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "ISSUER": issuer,
            "CLIENT_ID": CLIENT_ID,
            "CLIENT_SECRET": "shared secret",
            "REDIRECT_URL": f"{live_server.url}/login/provider/return",
            "ROLES": '{"ml-admins": "admin"}',
            "LABEL": "Example ID",
            "ALLOW_HTTP": "true",
        }.items():
            patch.setenv(f"EDGELOOP_OIDC_{name}", value)
        provider_settings.cache_clear()
        oidc.MEMORY.clear()
        yield live_server.url
    provider_settings.cache_clear()
    oidc.MEMORY.clear()


def test_a_person_goes_to_the_provider_and_comes_back_signed_in(browser: playwright.Browser, site: str) -> None:
    for tab in open_visit(browser, site):
        page = tab.page
        page.goto(f"{site}/login")
        page.get_by_role("link", name="Sign in with Example ID").click()
        page.get_by_role("button", name="u-ada").click()
        page.wait_for_url(f"{site}/")
        playwright.expect(page.get_by_role("link", name="ada (admin)")).to_have_count(1)
        cookies = {cookie["name"]: cookie for cookie in page.context.cookies(site)}
        assert cookies["edgeloop_session"]["sameSite"] == "Strict"
        assert "edgeloop_sign_in" not in cookies
        page.goto(f"{site}/console/account")
        playwright.expect(page.get_by_role("cell", name="provider")).to_have_count(1)
        playwright.expect(page.get_by_label("Present password")).to_have_count(0)
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("heading", name="Sign in").wait_for()
        page.goto(site)
        playwright.expect(page.get_by_role("heading", name="Sign in")).to_have_count(1)


def test_whoever_the_provider_knows_but_we_do_not_is_told_so(browser: playwright.Browser, site: str) -> None:
    for tab in open_visit(browser, site):
        tab.page.goto(f"{site}/login")
        tab.page.get_by_role("link", name="Sign in with Example ID").click()
        tab.page.get_by_role("button", name="u-eve").click()
        tab.page.get_by_text("no role here").wait_for()
        assert "edgeloop_session" not in {cookie["name"] for cookie in tab.page.context.cookies(site)}


def test_an_answer_that_another_browser_began_opens_nothing(browser: playwright.Browser, site: str) -> None:
    for attacker in open_visit(browser, site):
        attacker.page.goto(f"{site}/login")
        attacker.page.get_by_role("link", name="Sign in with Example ID").click()
        with attacker.page.expect_request(lambda request: "/login/provider/return" in request.url) as caught:
            attacker.page.route("**/login/provider/return*", lambda route: route.abort())
            attacker.page.get_by_role("button", name="u-ada").click(no_wait_after=True)
        for victim in open_visit(browser, site):
            victim.page.goto(caught.value.url)
            playwright.expect(victim.page.get_by_role("alert")).to_have_count(1)
            assert "edgeloop_session" not in {cookie["name"] for cookie in victim.page.context.cookies(site)}
