"""Accounts of everybody, as administrators see and change them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request

from contracts.wire.identity import AccountChange, AccountReason, AccountRequest
from tests.dashboard.twin.state import EVIL, Refusal, Twin, bearer

MOMENT = "2026-11-30T12:00:00Z"
ONE_TIME = "one-time-Xq3v9"


def people_routes(twin: Twin) -> APIRouter:
    """`/identity/v1/accounts` of the names in `twin.roles`."""
    router = APIRouter()

    def rule(request: Request, scope: str = "identity:write") -> None:
        if scope not in twin.scopes(bearer(request)):
            raise Refusal(403, f"this needs the scope {scope}")
        if "/identity/v1/accounts" in twin.down:
            raise Refusal(503, "the database does not answer; nothing was changed")

    def person(name: str) -> dict[str, object]:
        if name not in twin.roles:
            raise Refusal(404, f"there is no account '{name}'")
        known = {"version": 1, "disabled": False, "locked_until": None, "must_change": False, "api_tokens": []}
        held = [token for token, holder in twin.sessions.items() if holder == name]
        moments = dict.fromkeys(("started", "seen", "ends"), MOMENT)
        opened = [{"id": token.split("_")[1], "method": "password", "browser": EVIL} | moments for token in held]
        facts = {"name": name, "role": twin.roles[name], "has_password": True, "external": False, "created": MOMENT}
        shown = {**facts, **known, **twin.people.get(name, {}), "sessions": len(held), "open_sessions": opened}
        return {**shown, "tokens": len(shown["api_tokens"]), "password_until": MOMENT}

    def changed(name: str, verb: str, reason: str, if_match: str | None, **what: object) -> dict[str, object]:
        now = person(name)
        if if_match is not None and if_match != f'"{now["version"]}"':
            raise Refusal(412, f"{name} has version {now['version']} by now; look at it again, then decide")
        twin.sent.append((verb, reason))
        twin.people[name] = {**twin.people.get(name, {}), **what, "version": int(str(now["version"])) + 1}
        return person(name)

    @router.get("/identity/v1/accounts")
    def listed(request: Request, limit: int, cursor: int = 0) -> dict[str, object]:
        rule(request, "identity:read")
        names, end = sorted(twin.roles), cursor + limit
        return {
            "items": [person(name) for name in names[cursor:end]],
            "next_cursor": str(end) if end < len(names) else None,
        }

    @router.post("/identity/v1/accounts", status_code=201)
    def make(wanted: AccountRequest, request: Request) -> dict[str, object]:
        rule(request)
        if wanted.name in twin.roles:
            raise Refusal(409, f"there is an account {wanted.name} already")
        twin.roles[wanted.name] = wanted.role.value
        twin.sent.append(("make", wanted.reason or ""))
        twin.people[wanted.name] = {"must_change": True}
        return {**person(wanted.name), "one_time_password": ONE_TIME if wanted.one_time else None}

    @router.get("/identity/v1/accounts/{name}")
    def one(name: str, request: Request) -> dict[str, object]:
        rule(request, "identity:read")
        return person(name)

    @router.patch("/identity/v1/accounts/{name}")
    def change(
        name: str, wanted: AccountChange, request: Request, if_match: Annotated[str | None, Header()] = None
    ) -> dict[str, object]:
        rule(request)
        what: dict[str, object] = {} if wanted.disabled is None else {"disabled": wanted.disabled}
        done = changed(name, "change", wanted.reason, if_match, **what)
        for token in [token for token, holder in twin.sessions.items() if holder == name]:
            del twin.sessions[token]
        if wanted.role is not None:
            twin.roles[name] = wanted.role.value
        return {**done, **person(name), "one_time_password": ONE_TIME if wanted.one_time else None}

    @router.post("/identity/v1/accounts/{name}/unlock")
    def unlock(
        name: str, wanted: AccountReason, request: Request, if_match: Annotated[str | None, Header()] = None
    ) -> dict[str, object]:
        rule(request)
        return changed(name, "unlock", wanted.reason, if_match, locked_until=None)

    @router.post("/identity/v1/accounts/{name}/tokens/{token_id}/revoke")
    def revoke(name: str, token_id: str, wanted: AccountReason, request: Request) -> dict[str, object]:
        rule(request)
        tokens = twin.people.get(name, {}).get("api_tokens", [])
        assert isinstance(tokens, list)
        return changed(name, "revoke", wanted.reason, None, api_tokens=[one for one in tokens if one["id"] != token_id])

    return router
