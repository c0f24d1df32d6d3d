"""The wire side of OpenID Connect: discovery, keys, code for token, and the ID token's checks."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpx
import structlog
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_token_request
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from services.identity.errors import ProviderUnavailable, SignInRefused
from services.identity.limits import PROVIDER, ProviderSettings

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]
FORM = "application/x-www-form-urlencoded"
REFUSED = "the provider's answer does not hold: "
Json = dict[str, Any]  # Any: JSON

log = structlog.get_logger(__name__)


class _Memory:
    """Documents of the provider, kept for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, Json]] = {}

    def get(self, url: str, *, fresh: bool = False) -> Json:
        with self._lock:
            known = self._kept.get(url)
            if known is not None and not fresh and time.monotonic() - known[0] < PROVIDER.cache_s:
                return known[1]
        document = _read("GET", url)
        with self._lock:
            self._kept = {url: (time.monotonic(), document), **dict(list(self._kept.items())[:8])}
            self._kept[url] = (time.monotonic(), document)
        return document

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()


MEMORY = _Memory()


def discovery(provider: ProviderSettings) -> Json:
    """The provider's metadata. Raises ProviderUnavailable when it is not this issuer's, or not usable."""
    found = MEMORY.get(_safe(provider, provider.issuer.rstrip("/") + "/.well-known/openid-configuration"))
    if found.get("issuer") != provider.issuer:
        raise ProviderUnavailable("the provider calls itself by another name than EDGELOOP_OIDC_ISSUER; set it right")
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        _safe(provider, str(found.get(name, "")))
    return found


def exchange(provider: ProviderSettings, code: str, verifier: str) -> Json:
    """The token answer for a code. Raises SignInRefused, ProviderUnavailable."""
    metadata = discovery(provider)
    endpoint = str(metadata["token_endpoint"])
    body = prepare_token_request(
        "authorization_code", "", redirect_uri=provider.redirect_url, code=code, code_verifier=verifier
    )
    secret = provider.client_secret.get_secret_value()
    auth = ClientAuth(provider.client_id, secret, _client_method(metadata, secret))
    url, headers, body = auth.prepare("POST", endpoint, {"Content-Type": FORM, "Accept": "application/json"}, body)
    return _read("POST", url, content=body, headers=headers)


def checked_claims(provider: ProviderSettings, token: Mapping[str, Any], nonce: str) -> Mapping[str, Any]:
    """The claims of the ID token, after signature, issuer, audience, times, nonce and access-token hash held."""
    raw = token.get("id_token")
    if not isinstance(raw, str):
        raise SignInRefused(f"{REFUSED}it has no ID token; is the scope `openid` asked for?")
    try:
        decoded = _verified(provider, raw)
        options = {"iss": {"essential": True, "value": provider.issuer}, "aud": {"essential": True}}
        params = {"nonce": nonce, "client_id": provider.client_id, "access_token": token.get("access_token")}
        claims = CodeIDToken(decoded.claims, decoded.header, options, params)
        claims.validate(leeway=PROVIDER.leeway_s)
    except (JoseError, ValueError, TypeError) as error:
        log.warning("id_token_refused", reason=type(error).__name__)
        raise SignInRefused(f"{REFUSED}its ID token fails a check ({type(error).__name__})") from error
    audience = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    if provider.client_id not in audience:
        raise SignInRefused(f"{REFUSED}its ID token is for another client")
    if not isinstance(claims["sub"], str) or not 0 < len(claims["sub"]) <= 255:
        raise SignInRefused(f"{REFUSED}its ID token names nobody")
    return dict(claims)


def _verified(provider: ProviderSettings, raw: str) -> jwt.Token:
    """The decoded token; the keys are read anew once when none fits, for a provider that changed them."""
    address = str(discovery(provider)["jwks_uri"])
    try:
        return jwt.decode(raw, _keys(MEMORY.get(address)), algorithms=ALGORITHMS)
    except (JoseError, ValueError):
        return jwt.decode(raw, _keys(MEMORY.get(address, fresh=True)), algorithms=ALGORITHMS)


def _keys(document: Json) -> KeySet:
    """Public keys only: a symmetric one, were it published, would let everybody sign."""
    keys = [key for key in document.get("keys", []) if isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP")]
    return KeySet.import_key_set({"keys": keys})


def _client_method(metadata: Json, secret: str) -> str:
    if not secret:
        return "none"
    offered = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return "client_secret_basic" if "client_secret_basic" in offered else "client_secret_post"


def _safe(provider: ProviderSettings, url: str) -> str:
    """The address, if it is one that may be asked. Raises ProviderUnavailable."""
    parts = urlsplit(url)
    if not parts.netloc or parts.scheme not in (("https", "http") if provider.allow_http else ("https",)):
        raise ProviderUnavailable("an address of the identity provider is not an https address; correct its set-up")
    return url


def _read(method: str, url: str, **options: Any) -> Json:  # Any: httpx's own options
    """One JSON object, bounded. Redirects are not followed."""
    try:
        with _client() as client, client.stream(method, url, **options) as answer:
            body = b""
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > PROVIDER.answer_bytes:
                    raise ProviderUnavailable("the identity provider's answer is too large")
    except httpx.HTTPError as error:
        log.warning("provider_unreachable", error=type(error).__name__)
        raise ProviderUnavailable("the identity provider does not answer; try again, or sign in otherwise") from error
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if answer.status_code in (400, 401, 403):
        reason = document.get("error") if isinstance(document, dict) else ""
        log.warning("provider_refused", status=answer.status_code, reason=str(reason)[:60])
        raise SignInRefused("the identity provider refused the code; begin again")
    if not answer.is_success or not isinstance(document, dict):
        raise ProviderUnavailable(f"the identity provider answered {answer.status_code}; try again")
    return document


def _client() -> httpx.Client:
    return httpx.Client(timeout=PROVIDER.timeout_s, follow_redirects=False, trust_env=False, verify=_tls())


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
