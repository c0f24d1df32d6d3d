"""Bounds of the identity service: lifetimes in real seconds, sizes and counts; what it knows of the provider."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


@dataclass(frozen=True)
class SessionLimits:
    """A session ends when idle and, at the latest, after `longest_s`. Its use is noted at most every `note_s`."""

    idle_s: int = 45 * 60
    longest_s: int = 12 * 3_600
    note_s: int = 30
    each: int = 20
    kept_s: int = 7 * 86_400


@dataclass(frozen=True)
class PasswordLimits:
    """Length in characters; `at_once` hashes of 64 MiB each at a time, the others wait `wait_s` at most.

    A one-time password has `one_time_bytes` random bytes and is good for `one_time_s`.
    """

    shortest: int = 12
    longest: int = 256
    at_once: int = 2
    wait_s: float = 5.0
    one_time_bytes: int = 15
    one_time_s: int = 3 * 86_400


@dataclass(frozen=True)
class LockLimits:
    """After `free` failures in a row the next try must wait: `first_s`, doubled each time, at most `longest_s`.

    Failures are forgotten after `forget_s`, at most `swept` names a try.
    """

    free: int = 5
    first_s: float = 2.0
    longest_s: float = 900.0
    forget_s: int = 86_400
    swept: int = 100


@dataclass(frozen=True)
class TokenLimits:
    """API tokens that one account may have at a time."""

    each: int = 50


@dataclass(frozen=True)
class ProviderLimits:
    """A sign-in at the provider takes `life_s` at most; its documents are read up to `answer_bytes`.

    Documents of the provider are kept `cache_s`; `leeway_s` is the error that its clock may have.
    """

    life_s: int = 600
    waiting: int = 10_000
    answer_bytes: int = 1 << 20
    timeout_s: float = 10.0
    cache_s: float = 3_600.0
    leeway_s: int = 60
    groups: int = 1_000


SESSION = SessionLimits()
PASSWORD = PasswordLimits()
LOCK = LockLimits()
TOKEN = TokenLimits()
PROVIDER = ProviderLimits()

FORM_BYTES = 16_384
BODY_LIMITS = {"/v1": FORM_BYTES}


class ProviderSettings(BaseSettings):
    """The OpenID Connect provider, from `EDGELOOP_OIDC_*`. Without an issuer there is none.

    `roles` maps values of the claim to roles (`{"ml-admins": "admin"}`); the highest that fits counts, and whoever has
    none gets `default_role`, or is refused where that is empty.
    """

    model_config = SettingsConfigDict(env_prefix="EDGELOOP_OIDC_", extra="ignore", frozen=True)

    issuer: str = Field("", max_length=400)
    client_id: str = Field("", max_length=200)
    client_secret: SecretStr = SecretStr("")
    redirect_url: str = Field("", max_length=400, description="https://console.example/login/provider/return")
    label: str = Field("the identity provider", max_length=60)
    scope: str = Field("openid profile", max_length=200)
    name_claim: str = Field("preferred_username", max_length=60)
    role_claim: str = Field("groups", max_length=60)
    roles: dict[str, str] = Field(default_factory=dict)
    default_role: str = Field("", pattern="^(viewer|operator|releaser|admin)?$")
    allow_http: bool = Field(False, description="an issuer without TLS: for tests on this machine only")


@lru_cache(maxsize=1)
def provider_settings() -> ProviderSettings:
    """The process's settings of the provider."""
    return ProviderSettings()
