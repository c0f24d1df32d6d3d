"""Sign-in at an identity provider: an independent one lets people in, a lying one lets nobody in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from services.identity import oidc
from services.identity.limits import PROVIDER, provider_settings
from services.identity.models import AccountRow, ProviderSignInRow
from services.kit.database import transaction
from tests.identity.conftest import People
from tests.support.http import ApiClient, LiveServer
from tests.support.identity_provider import CLIENT_ID, RETURN, LyingProvider, independent_provider, visit

USERS = [
    {"sub": "u-ada", "preferred_username": "ada", "groups": ["staff", "ml-admins"]},
    {"sub": "u-bo", "preferred_username": "bo@example.org", "groups": ["ml-watch", "ml-release"]},
    {"sub": "u-eve", "preferred_username": "eve", "groups": ["sales"]},
]
ROLES = '{"ml-admins": "admin", "ml-release": "releaser", "ml-watch": "viewer", "odd": "emperor"}'

Configure = Callable[..., None]


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Configure]:
    def with_issuer(issuer: str, **more: str) -> None:
        values = {
            "ISSUER": issuer,
            "CLIENT_ID": CLIENT_ID,
            "CLIENT_SECRET": "shared secret",
            "REDIRECT_URL": RETURN,
            "ROLES": ROLES,
            "ALLOW_HTTP": "true",
            **more,
        }
        for name, value in values.items():
            monkeypatch.setenv(f"EDGELOOP_OIDC_{name}", value)
        provider_settings.cache_clear()
        oidc.MEMORY.clear()

    yield with_issuer
    monkeypatch.undo()
    provider_settings.cache_clear()
    oidc.MEMORY.clear()


@pytest.fixture(scope="module")
def independent() -> Iterator[str]:
    with independent_provider(USERS) as issuer:
        yield issuer


@pytest.fixture(scope="module")
def lying_server() -> Iterator[tuple[LyingProvider, str]]:
    provider = LyingProvider()
    with LiveServer(provider.app()) as server:
        yield provider, server.url


@pytest.fixture
def liar(lying_server: tuple[LyingProvider, str], configure: Configure) -> LyingProvider:
    """A provider that says the truth until the test changes it."""
    provider, url = lying_server
    fresh = LyingProvider(issuer=url, key=provider.key, other=provider.other)
    fresh.claims = {"sub": "u-lia", "preferred_username": "lia", "groups": ["ml-watch"]}
    provider.__dict__.update(fresh.__dict__)
    configure(url)
    return provider


def begin(client: ApiClient) -> Any:
    answer = client.post("/identity/v1/provider-sign-ins", json={})
    assert answer.status_code == 201, answer.text
    return answer.json()


def finish(client: ApiClient, begun: Any, back: dict[str, str], **change: str) -> Any:
    body = {"binding": begun["binding"], "state": back["state"], "code": back["code"], **change}
    if "iss" in back:
        body["issuer"] = back["iss"]
    return client.post("/identity/v1/provider-sessions", json=body)


def test_a_person_of_an_independent_provider_comes_in_with_the_role_of_their_groups(
    client: ApiClient, people: People, independent: str, configure: Configure
) -> None:
    configure(independent)
    for subject, name, role in (("u-ada", "ada", "admin"), ("u-bo", "bo", "releaser")):
        begun = begin(client)
        answer = finish(client, begun, visit(begun["url"], subject))
        assert answer.status_code == 201, answer.text
        me = people.me(answer.json()["token"]).json()
        assert (me["name"], me["role"], me["has_password"]) == (name, role, False)
    assert client.post("/identity/v1/sessions", json={"name": "ada", "password": ""}).status_code == 401


def test_a_person_without_a_group_of_ours_stays_outside(
    client: ApiClient, independent: str, configure: Configure
) -> None:
    configure(independent)
    begun = begin(client)
    answer = finish(client, begun, visit(begun["url"], "u-eve"))
    assert answer.status_code == 401
    assert "no role here" in answer.json()["detail"]
    with transaction() as session:
        assert session.get(AccountRow, "eve") is None


def test_the_request_carries_pkce_state_and_nonce_and_keeps_the_secrets_here(
    client: ApiClient, liar: LyingProvider
) -> None:
    begun = begin(client)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(begun["url"]).query).items()}
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == RETURN
    assert "openid" in asked["scope"].split()
    assert len({asked["state"], asked["nonce"], asked["code_challenge"], begun["binding"]}) == 4
    with transaction() as session:
        row = session.query(ProviderSignInRow).order_by(ProviderSignInRow.expires_at.desc()).first()
        assert row is not None
        assert row.verifier not in begun["url"]
    assert "shared secret" not in begun["url"]


def test_the_honest_answer_is_accepted_once(client: ApiClient, liar: LyingProvider) -> None:
    begun = begin(client)
    back = liar.agree(begun["url"])
    assert finish(client, begun, back).status_code == 201
    liar.codes[back["code"]] = {}
    again = finish(client, begun, back)
    assert again.status_code == 401
    assert "used already" in again.json()["detail"]


LIES: dict[str, Callable[[LyingProvider], object]] = {
    "another issuer": lambda liar: liar.claims.update(iss="https://evil.example"),
    "another audience": lambda liar: liar.claims.update(aud="another-client"),
    "another audience that names us as party": lambda liar: liar.claims.update(aud="another-client", azp=CLIENT_ID),
    "two audiences without party": lambda liar: liar.claims.update(aud=[CLIENT_ID, "another"]),
    "the party is another": lambda liar: liar.claims.update(azp="another-client"),
    "an old token": lambda liar: liar.claims.update(exp=1_700_000_000),
    "a token of tomorrow": lambda liar: liar.claims.update(nbf=9_999_999_999),
    "another nonce": lambda liar: liar.claims.update(nonce="replayed"),
    "no nonce": lambda liar: liar.drop.add("nonce"),
    "no expiry": lambda liar: liar.drop.add("exp"),
    "no subject": lambda liar: liar.drop.add("sub"),
    "an empty subject": lambda liar: liar.claims.update(sub=""),
    "a subject that is no text": lambda liar: liar.claims.update(sub={"a": 1}),
    "no signature": lambda liar: setattr(liar, "algorithm", "none"),
    "signed with the public key": lambda liar: setattr(liar, "algorithm", "HS256"),
    "signed by somebody else": lambda liar: setattr(liar, "sign_with", "other"),
    "no ID token": lambda liar: liar.answer.update(id_token=None),
    "an ID token that is no token": lambda liar: liar.answer.update(id_token="a.b.c"),
    "a wrong hash of the access token": lambda liar: liar.claims.update(at_hash="AAAAAAAAAAAAAAAAAAAAAA"),
    "no groups": lambda liar: liar.claims.update(groups=None),
    "groups that give an unknown role": lambda liar: liar.claims.update(groups=["odd"]),
    "groups that are no text": lambda liar: liar.claims.update(groups=[["ml-admins"], 3]),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_provider_lets_nobody_in(client: ApiClient, liar: LyingProvider, lie: str) -> None:
    begun = begin(client)
    LIES[lie](liar)
    answer = finish(client, begun, liar.agree(begun["url"]))
    assert answer.status_code == 401, answer.text
    assert "token" not in answer.json()


@pytest.mark.parametrize("what", ["state", "binding", "code", "issuer"])
def test_an_answer_of_another_browser_or_sign_in_is_refused(client: ApiClient, liar: LyingProvider, what: str) -> None:
    begun, other = begin(client), begin(client)
    back = liar.agree(begun["url"])
    change = {
        "state": liar.agree(other["url"])["state"],
        "binding": other["binding"],
        "code": "made-up",
        "issuer": "https://evil.example",
    }[what]
    assert finish(client, begun, back, **{what: change}).status_code == 401


def test_an_answer_that_comes_too_late_is_refused(client: ApiClient, liar: LyingProvider) -> None:
    begun = begin(client)
    with transaction() as session:
        for row in session.query(ProviderSignInRow):
            row.expires_at = row.expires_at.replace(year=2001)
    assert finish(client, begun, liar.agree(begun["url"])).status_code == 401


def test_a_local_account_is_not_taken_over_by_name(client: ApiClient, people: People, liar: LyingProvider) -> None:
    people.add("local-admin", "admin")
    begun = begin(client)
    back = liar.agree(begun["url"], sub="u-imposter", preferred_username="local-admin")
    answer = finish(client, begun, back)
    assert answer.status_code == 401
    assert "another origin" in answer.json()["detail"]
    assert people.sign_in("local-admin")


def test_groups_that_change_end_the_sessions_of_the_old_role(
    client: ApiClient, people: People, liar: LyingProvider
) -> None:
    person = {"sub": "u-max", "preferred_username": "max"}
    begun = begin(client)
    first = finish(client, begun, liar.agree(begun["url"], groups=["ml-admins"], **person)).json()["token"]
    begun = begin(client)
    second = finish(client, begun, liar.agree(begun["url"], groups=["ml-watch"], **person)).json()["token"]
    assert people.me(first).status_code == 401
    assert people.me(second).json()["role"] == "viewer"


def test_a_disabled_person_of_the_provider_stays_outside(
    client: ApiClient, people: People, liar: LyingProvider
) -> None:
    person = {"sub": "u-gone", "preferred_username": "gone"}
    begun = begin(client)
    assert finish(client, begun, liar.agree(begun["url"], **person)).status_code == 201
    assert people.change("gone", disabled=True).status_code == 200
    begun = begin(client)
    assert finish(client, begun, liar.agree(begun["url"], **person)).status_code == 401


def test_a_provider_that_changed_its_keys_is_asked_for_them_again(client: ApiClient, liar: LyingProvider) -> None:
    begun = begin(client)
    assert finish(client, begun, liar.agree(begun["url"])).status_code == 201
    liar.key, liar.other = liar.other, liar.key
    begun = begin(client)
    assert finish(client, begun, liar.agree(begun["url"])).status_code == 201


@pytest.mark.parametrize(
    "published",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "ftp://x/y"},
        {"jwks_uri": ""},
        {"filler": "x" * 2_000_000},
    ],
)
def test_a_provider_that_is_set_up_wrongly_is_said_to_be_so(
    client: ApiClient, liar: LyingProvider, published: dict[str, str]
) -> None:
    liar.published = published
    answer = client.post("/identity/v1/provider-sign-ins", json={})
    assert answer.status_code == 503
    assert "provider" in answer.json()["detail"]


def test_a_provider_without_tls_is_refused_unless_a_test_allows_it(
    client: ApiClient, liar: LyingProvider, configure: Configure
) -> None:
    configure(liar.issuer, ALLOW_HTTP="false")
    assert client.post("/identity/v1/provider-sign-ins", json={}).status_code == 503


def test_without_a_provider_there_is_no_button_and_no_way(client: ApiClient, configure: Configure) -> None:
    configure("")
    assert client.get("/identity/v1/sign-in-methods").json() == {"provider": None}
    assert client.post("/identity/v1/provider-sign-ins", json={}).status_code == 409


def test_sign_ins_that_never_come_back_are_bounded(
    client: ApiClient, liar: LyingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    monkeypatch.setattr("services.identity.provider.PROVIDER", replace(PROVIDER, waiting=0))
    assert client.post("/identity/v1/provider-sign-ins", json={}).status_code == 429
