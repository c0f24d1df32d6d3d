"""The identity service: accounts named as their roles, all with one password."""

from __future__ import annotations

from fastapi import APIRouter, Request

from tests.dashboard.twin.people import people_routes
from tests.dashboard.twin.state import EVIL, PASSWORD, TOKEN, Refusal, Twin, bearer


def identity_routes(twin: Twin) -> APIRouter:
    """The identity service: accounts named as their roles, all with one password."""
    router = APIRouter()
    router.include_router(people_routes(twin))

    @router.get("/identity/v1/sign-in-methods")
    def methods() -> dict[str, object]:
        return {"provider": twin.provider}

    @router.post("/identity/v1/sessions", status_code=201)
    def sign_in(body: dict[str, str]) -> dict[str, object]:
        if body["password"] != PASSWORD or body["name"] not in twin.roles:
            raise Refusal(401, "name or password is wrong")
        return twin.enter(body["name"])

    @router.post("/identity/v1/token-sessions", status_code=201)
    def exchange(request: Request) -> dict[str, object]:
        if bearer(request) != TOKEN:
            raise Refusal(401, "the token is unknown")
        return twin.enter(None)

    @router.get("/identity/v1/me")
    def me(request: Request) -> dict[str, object]:
        if "/identity" in twin.down:
            raise Refusal(503, "the database does not answer; nothing was changed")
        token = bearer(request)
        scopes = twin.scopes(token)
        if not scopes:
            raise Refusal(401, "the token is unknown")
        name = twin.sessions.get(token)
        role = twin.roles[name] if name else None
        session = token.split("_")[1] if token in twin.sessions else None
        shown = {"name": name or "embedded", "role": role, "scopes": sorted(scopes), "session": session}
        must_change = bool(name and twin.people.get(name, {}).get("must_change"))
        return {**shown, "has_password": name is not None, "must_change": must_change}

    @router.delete("/identity/v1/sessions/{session_id}", status_code=204)
    def leave(session_id: str, request: Request) -> None:
        chosen = bearer(request) if session_id == "current" else f"el_{session_id}_session-of-the-twin"
        twin.sessions.pop(chosen, None)

    @router.get("/identity/v1/sessions")
    def own_sessions(request: Request) -> dict[str, object]:
        name = twin.sessions.get(bearer(request))
        moments = dict.fromkeys(("started", "seen", "ends"), "2026-11-30T12:00:00Z")
        return {
            "items": [
                {"id": token.split("_")[1], "method": "password", "browser": EVIL, "current": token == bearer(request)}
                | moments
                for token, holder in twin.sessions.items()
                if holder == name
            ]
        }

    @router.get("/identity/v1/tokens")
    def own_tokens() -> dict[str, object]:
        return {"items": [{k: v for k, v in token.items() if k != "token"} for token in twin.tokens]}

    @router.post("/identity/v1/tokens", status_code=201)
    def make_token(body: dict[str, object], request: Request) -> dict[str, object]:
        scopes = body["scopes"] or sorted(twin.scopes(bearer(request)))
        moments = {"created": "2026-11-30T12:00:00Z", "expires": "2027-02-28T12:00:00Z"}
        made = {"id": "00aa", "label": body["label"], "scopes": scopes, "token": "el_00aa_shown-once", **moments}
        twin.tokens.append(made)
        return made

    @router.delete("/identity/v1/tokens/{token_id}", status_code=204)
    def revoke_token(token_id: str) -> None:
        twin.tokens[:] = [token for token in twin.tokens if token["id"] != token_id]

    @router.post("/identity/v1/password", status_code=201)
    def password(body: dict[str, str], request: Request) -> dict[str, object]:
        if body["current"] != PASSWORD:
            raise Refusal(401, "the present password is wrong; nothing was changed")
        name = twin.sessions.pop(bearer(request))
        twin.people.setdefault(name or "", {})["must_change"] = False
        return twin.enter(name)

    return router
