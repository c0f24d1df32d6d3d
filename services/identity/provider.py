"""Sign-in at an OpenID Connect provider: authorization code with PKCE, and every check of the ID token.

The browser carries `state` (by the provider) and `binding` (a cookie of the console); verifier and nonce never leave
the database. A sign-in comes back once, in time, to the browser that began it, or not at all.

Invariants: issuer of discovery, of the answer (RFC 9207) and of the ID token are the configured one; the audience is
our client; only asymmetric signatures of the provider's published keys count; nothing of the provider's is read beyond
`PROVIDER.answer_bytes`; an account of another origin is never taken over by name.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from contracts.wire.identity import ProviderFinish, ProviderRedirect
from services.identity import oidc
from services.identity.errors import NoProvider, SignInRefused
from services.identity.limits import PROVIDER, ProviderSettings, provider_settings
from services.identity.models import ProviderSignInRow
from services.kit.database import transaction
from services.kit.problems import TooManyRequests

Claims = Mapping[str, Any]  # Any: JSON


@dataclass(frozen=True)
class Waiting:
    """What was kept of a sign-in while the browser was at the provider."""

    nonce: str
    verifier: str


def configured() -> ProviderSettings:
    """The provider's settings. Raises NoProvider."""
    found = provider_settings()
    if not found.issuer or not found.client_id or not found.redirect_url:
        raise NoProvider(
            "no identity provider is set up: EDGELOOP_OIDC_ISSUER, _CLIENT_ID and _REDIRECT_URL name it; "
            "sign in with a password"
        )
    return found


def begin() -> ProviderRedirect:
    """Where to send the browser. Raises NoProvider, ProviderUnavailable."""
    provider = configured()
    endpoint = oidc.discovery(provider)["authorization_endpoint"]
    state, binding, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(4))
    with transaction() as session:
        _make_room(session)
        row = ProviderSignInRow(state_hash=_hash(state), binding_hash=_hash(binding), nonce=nonce, verifier=verifier)
        row.expires_at = datetime.now(UTC) + timedelta(seconds=PROVIDER.life_s)
        session.add(row)
    url = prepare_grant_uri(
        endpoint,
        client_id=provider.client_id,
        response_type="code",
        redirect_uri=provider.redirect_url,
        scope=provider.scope,
        state=state,
        nonce=nonce,
        code_challenge=create_s256_code_challenge(verifier),
        code_challenge_method="S256",
    )
    return ProviderRedirect(url=url, binding=binding)


def finish(answer: ProviderFinish) -> Claims:
    """The checked claims of the ID token. Raises NoProvider, SignInRefused, ProviderUnavailable."""
    provider = configured()
    if answer.issuer and answer.issuer != provider.issuer:
        raise SignInRefused("the answer came from another issuer than the one set up; begin again")
    waiting = _take(answer.state, answer.binding.get_secret_value())
    if waiting is None:
        raise SignInRefused("this sign-in was not begun here, was used already or took too long; begin again")
    token = oidc.exchange(provider, answer.code.get_secret_value(), waiting.verifier)
    return oidc.checked_claims(provider, token, waiting.nonce)


def _take(state: str, binding: str) -> Waiting | None:
    """Use up what was kept under `state`; it counts only with the cookie of the same browser."""
    with transaction() as session:
        statement = delete(ProviderSignInRow).where(ProviderSignInRow.state_hash == _hash(state))
        row = session.execute(
            statement.returning(
                ProviderSignInRow.binding_hash,
                ProviderSignInRow.nonce,
                ProviderSignInRow.verifier,
                ProviderSignInRow.expires_at,
            )
        ).first()
    if row is None or row.expires_at <= datetime.now(UTC) or not hmac.compare_digest(row.binding_hash, _hash(binding)):
        return None
    return Waiting(row.nonce, row.verifier)


def _make_room(session: Session) -> None:
    """Late ones leave; when very many wait, no further one begins."""
    session.execute(delete(ProviderSignInRow).where(ProviderSignInRow.expires_at <= datetime.now(UTC)))
    waiting = session.scalar(select(func.count()).select_from(ProviderSignInRow)) or 0
    if waiting >= PROVIDER.waiting:
        raise TooManyRequests("very many people sign in at this moment; wait a minute", retry_after_s=60)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
