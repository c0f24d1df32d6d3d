"""People: accounts with a role, sessions, API tokens."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field, SecretStr, StringConstraints

from contracts.wire.base import Answer, Message


class Role(StrEnum):
    """What a person may do; each role may do all that the one before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    RELEASER = "releaser"
    ADMIN = "admin"


AccountName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{1,62}$")]
Password = Annotated[SecretStr, Field(max_length=256)]
Secret = Annotated[SecretStr, Field(min_length=1, max_length=4_000)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=60, strip_whitespace=True)]
Browser = Annotated[str, StringConstraints(max_length=300)]


class SignIn(Message):
    """Name and password of a local account. `browser` is what the list of sessions shows."""

    name: Annotated[str, StringConstraints(max_length=64, strip_whitespace=True, to_lower=True)]
    password: Password
    browser: Browser = ""


class SessionFromToken(Message):
    """Ask for a session of the token that the request carries."""

    browser: Browser = ""


class SessionAnswer(Answer):
    """A new session. `token` is shown this once; it opens what the role allows until the session ends."""

    token: str
    name: str
    scopes: tuple[str, ...]
    idle_s: int
    ends: datetime


class Me(Answer):
    """Who holds the token of this request. `role` is null for a token without an account."""

    name: str
    role: Role | None = None
    scopes: tuple[str, ...] = ()
    session: str | None = None
    has_password: bool = False
    ends: datetime | None = None


class SessionRecord(Answer):
    """A session that is open."""

    id: str
    method: str
    browser: str = ""
    started: datetime
    seen: datetime
    ends: datetime
    current: bool = False


class SessionList(Answer):
    """The sessions of one account that are open, newest first."""

    items: tuple[SessionRecord, ...]


class ApiTokenRequest(Message):
    """A token for a script: what it is for, what it may do (all that the caller may, where empty), for how long."""

    label: Label
    scopes: Annotated[tuple[Annotated[str, StringConstraints(max_length=40)], ...], Field(max_length=40)] = ()
    days: Annotated[int, Field(ge=1, le=365)] = 90


class ApiTokenRecord(Answer):
    """An API token, without its secret."""

    id: str
    label: str
    scopes: tuple[str, ...]
    created: datetime
    expires: datetime
    revoked: datetime | None = None


class ApiTokenAnswer(ApiTokenRecord):
    """A new API token; `token` is shown this once."""

    token: str


class ApiTokenList(Answer):
    """The API tokens of one account that are valid, newest first."""

    items: tuple[ApiTokenRecord, ...]


class PasswordChange(Message):
    """The present password and the one to come."""

    current: Password
    new: Password


class AccountRequest(Message):
    """A new local account; without a password it can be used through the provider of identities only."""

    name: AccountName
    role: Role
    password: Password | None = None


class AccountChange(Message):
    """What changes; what is left out stays. Any change ends the account's sessions."""

    role: Role | None = None
    disabled: bool | None = None
    password: Password | None = None
    reason: Annotated[str, StringConstraints(min_length=3, max_length=400)]


class Account(Answer):
    """A person's account."""

    name: str
    role: Role
    has_password: bool
    external: bool
    disabled: bool
    created: datetime
    sessions: int = 0


class AccountList(Answer):
    """A page of accounts by name."""

    items: tuple[Account, ...]
    next_cursor: str | None = None


class SignInMethods(Answer):
    """How people can sign in here. `provider` is the name on the button of the identity provider, if there is one."""

    provider: str | None = None


class ProviderStart(Message):
    """Begin to sign in at the identity provider."""

    browser: Browser = ""


class ProviderRedirect(Answer):
    """Where to send the browser, and what the same browser must bring back (keep it in a cookie)."""

    url: str
    binding: str


class ProviderFinish(Message):
    """What the provider sent back by way of the browser."""

    state: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    code: Secret
    binding: Annotated[SecretStr, Field(min_length=1, max_length=200)]
    issuer: Annotated[str, StringConstraints(max_length=400)] = ""
    browser: Browser = ""
