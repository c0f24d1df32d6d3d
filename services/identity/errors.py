"""Business errors of the identity service, as problem documents.

Problem
├── WrongSignIn         401  name or password is wrong, or the account is disabled; which one is not said
├── SignInRefused       401  the identity provider's answer does not let anyone in
├── NoSession           403  only a person who signed in may do this, no API token
├── UnknownAccount      404
├── UnknownSession      404
├── UnknownToken        404
├── NameTaken           409
├── LastAdmin           409  nobody could administer the platform any more
├── TooManyTokens       409
├── NoProvider          409  no identity provider is set up
├── StaleAccount        412  somebody else changed it first
├── WeakPassword        422
├── Locked              429  too many wrong passwords; carries Retry-After
└── ProviderUnavailable 503
"""

from __future__ import annotations

from services.kit.problems import (
    Conflict,
    Forbidden,
    MalformedPayload,
    NotFound,
    Problem,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)


class WrongSignIn(Unauthorized):
    slug, title = "wrong-sign-in", "Name or password is wrong"


class SignInRefused(Unauthorized):
    slug, title = "sign-in-refused", "The identity provider's answer lets nobody in"


class NoSession(Forbidden):
    slug, title = "no-session", "Only a person who signed in may do this"


class UnknownAccount(NotFound):
    slug, title = "unknown-account", "There is no such account"


class UnknownSession(NotFound):
    slug, title = "unknown-session", "There is no such session"


class UnknownToken(NotFound):
    slug, title = "unknown-token", "There is no such token"


class NameTaken(Conflict):
    slug, title = "name-taken", "The name is taken"


class LastAdmin(Conflict):
    slug, title = "last-admin", "Nobody could administer the platform any more"


class TooManyTokens(Conflict):
    slug, title = "too-many-tokens", "The account has too many tokens"


class NoProvider(Conflict):
    slug, title = "no-provider", "No identity provider is set up"


class StaleAccount(Problem):
    status, slug, title = 412, "stale-account", "Somebody else changed the account first"


class WeakPassword(MalformedPayload):
    slug, title = "weak-password", "The password is too easy to guess"


class Locked(TooManyRequests):
    slug, title = "locked", "Too many wrong passwords"


class ProviderUnavailable(Unavailable):
    slug, title = "provider-unavailable", "The identity provider does not answer"
