"""Two OpenID Connect providers: an independent one as a process, and one of our own that can lie in every way."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

import httpx
from fastapi import FastAPI, Form, Request
from fastapi.responses import JSONResponse
from joserfc import jwt
from joserfc.jwk import RSAKey

from embedded.ports import HOST, free_port

CLIENT_ID = "edgeloop-console"
RETURN = "https://console.example/login/provider/return"


@contextmanager
def independent_provider(users: list[dict[str, Any]]) -> Iterator[str]:
    """`oidc-provider-mock` as a process; gives its issuer."""
    port = free_port()
    arguments = [item for user in users for item in ("--user-claims", json.dumps(user))]
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "-p", str(port), "-n", "true", *arguments]
    issuer = f"http://{HOST}:{port}"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(issuer, process)
        yield issuer
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(issuer: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            if httpx.get(f"{issuer}/.well-known/openid-configuration", trust_env=False).is_success:
                return
        except httpx.HTTPError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the identity provider did not start")
        time.sleep(0.1)


def visit(url: str, subject: str) -> dict[str, str]:
    """What a browser does at the independent provider: agree as `subject`; gives the query it comes back with."""
    answer = httpx.post(url, data={"sub": subject}, trust_env=False, follow_redirects=False)
    assert answer.status_code in (302, 303), answer.text[:500]
    query = parse_qs(urlsplit(answer.headers["location"]).query)
    return {name: values[0] for name, values in query.items()}


@dataclass
class LyingProvider:
    """A provider whose answers the test decides. It checks PKCE, so a client that leaves it out fails."""

    issuer: str = ""
    claims: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "RS256"
    sign_with: str = "own"
    drop: set[str] = field(default_factory=set)
    published: dict[str, Any] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one"}))
    other: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one"}))

    def agree(self, url: str, **person: Any) -> dict[str, str]:
        """What the browser brings back after the person agreed."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        self.claims = {**self.claims, **person}
        return {"state": asked["state"], "code": code}

    def app(self) -> FastAPI:
        """Its web server."""
        app = FastAPI()

        @app.get("/.well-known/openid-configuration")
        def discovery() -> dict[str, Any]:
            base = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
            }
            return {**base, **self.published}

        @app.get("/keys")
        def keys() -> dict[str, Any]:
            return {"keys": [self.key.as_dict(private=False)]}

        @app.post("/token")
        def token(
            request: Request,
            code: Annotated[str, Form()],
            redirect_uri: Annotated[str, Form()],
            code_verifier: Annotated[str, Form()] = "",
        ) -> JSONResponse:
            asked = self.codes.pop(code, None)
            digest = hashlib.sha256(code_verifier.encode()).digest()
            challenge = _encoded(digest)
            basic = base64.b64encode(f"{CLIENT_ID}:shared secret".encode()).decode()
            right = asked is not None and asked.get("code_challenge") == challenge
            right = right and asked["code_challenge_method"] == "S256" and asked["redirect_uri"] == redirect_uri
            if not right or request.headers.get("authorization") != f"Basic {basic}":
                return JSONResponse({"error": "invalid_grant"}, status_code=400)
            return JSONResponse(
                {"access_token": "at", "token_type": "Bearer", "id_token": self._sign(asked), **self.answer}
            )

        return app

    def _sign(self, asked: dict[str, str]) -> str:
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims = {name: value for name, value in {**usual, **self.claims}.items() if name not in self.drop}
        header = {"alg": self.algorithm, "kid": "one"}
        if self.algorithm in ("none", "HS256"):
            signed = ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
            public = self.key.as_pem(private=False)
            mac = hmac.digest(public, signed.encode(), "sha256") if self.algorithm == "HS256" else b""
            return f"{signed}.{_encoded(mac)}"
        return jwt.encode(header, claims, self.other if self.sign_with == "other" else self.key)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
