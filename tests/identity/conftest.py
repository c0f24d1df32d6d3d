"""Accounts with cheap hashes on the whole application; an administrator's token to begin with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from argon2 import PasswordHasher, profiles

from services.identity import passwords
from tests.support.http import ApiClient
from tests.support.platform import Tokens

GOOD = "correct-horse-battery"


@pytest.fixture(scope="module", autouse=True)
def _cheap_hashes() -> Iterator[None]:
    """Real argon2id with the smallest parameters; tests of the parameters set their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "HASHER", PasswordHasher.from_parameters(profiles.CHEAPEST))
        yield


class People:
    """Makes accounts and signs them in."""

    def __init__(self, client: ApiClient, ruler: str) -> None:
        self.client, self.ruler = client, ruler

    def add(self, name: str, role: str, password: str = GOOD) -> None:
        """An account."""
        body = {"name": name, "role": role, "password": password}
        answer = self.client.post("/identity/v1/accounts", token=self.ruler, json=body)
        assert answer.status_code == 201, answer.text

    def sign_in(self, name: str, password: str = GOOD) -> Any:
        """The session's answer as JSON."""
        answer = self.client.post("/identity/v1/sessions", json={"name": name, "password": password})
        assert answer.status_code == 201, answer.text
        return answer.json()

    def enter(self, name: str, role: str) -> str:
        """A new account, signed in: the session's token."""
        self.add(name, role)
        token: str = self.sign_in(name)["token"]
        return token

    def change(self, name: str, **what: object) -> Any:
        """Change an account as the administrator."""
        body = {"reason": "in the test", **what}
        return self.client.request("PATCH", f"/identity/v1/accounts/{name}", token=self.ruler, json=body)

    def me(self, token: str, use: bool = False) -> Any:
        """What the platform says about a token."""
        return self.client.get("/identity/v1/me", token=token, params={"use": use})


@pytest.fixture(scope="module")
def people(client: ApiClient, tokens: Tokens) -> People:
    """The accounts of this module."""
    return People(client, tokens.operator)
