"""People: accounts with a role, sessions, API tokens."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeVar

from pydantic import Field, SecretStr, StringConstraints, model_validator

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
Why = Annotated[str, StringConstraints(min_length=3, max_length=400, strip_whitespace=True)]


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
    must_change: bool = False
    """The password was a one-time password: until another is chosen the session opens nothing else."""


class Me(Answer):
    """Who holds the token of this request. `role` is null for a token without an account."""

    name: str
    role: Role | None = None
    scopes: tuple[str, ...] = ()
    session: str | None = None
    has_password: bool = False
    must_change: bool = False
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


M = TypeVar("M", "AccountRequest", "AccountChange")


def _not_both(message: M) -> M:
    if message.one_time and message.password is not None:
        raise ValueError("give a password or ask for a one-time password, not both")
    return message


class AccountRequest(Message):
    """A new local account; without a password it can be used through the provider of identities only. `one_time`: the
    service makes a password, tells it once, and wants another one at the first sign-in.
    """

    name: AccountName
    role: Role
    password: Password | None = None
    one_time: bool = False
    reason: Why | None = None

    @model_validator(mode="after")
    def _one_password(self) -> AccountRequest:
        return _not_both(self)


class AccountChange(Message):
    """What changes; what is left out stays. Any change ends the account's sessions."""

    role: Role | None = None
    disabled: bool | None = None
    password: Password | None = None
    one_time: bool = False
    reason: Why

    @model_validator(mode="after")
    def _one_password(self) -> AccountChange:
        return _not_both(self)


class AccountReason(Message):
    """Why something is done to an account; it goes into the audit trail."""

    reason: Why


class Account(Answer):
    """A person's account."""

    name: str
    role: Role
    has_password: bool
    external: bool
    disabled: bool
    created: datetime
    sessions: int = 0
    tokens: int = 0
    version: int = 1
    """Changes with every change of the account; send it back as `If-Match` (412 when somebody was faster)."""
    must_change: bool = False
    password_until: datetime | None = None
    """When the one-time password is worth nothing any more, if it has not been used."""
    locked_until: datetime | None = None


class AccountAnswer(Account):
    """An account that was made or changed. `one_time_password` is shown this once."""

    one_time_password: str | None = None


class AccountDetail(Account):
    """An account with what is open in its name, newest first."""

    open_sessions: tuple[SessionRecord, ...] = ()
    api_tokens: tuple[ApiTokenRecord, ...] = ()


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
