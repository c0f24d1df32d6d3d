"""State of the imagined platform, and how its routes refuse."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from contracts.wire import Build, Cluster, CohortDay, DeviceRecord, DriftAlarm, Rollout

TOKEN = "el_0123456789abcdef_operator-of-the-test"
PASSWORD = "right-password"
READS = frozenset(f"{name}:read" for name in ("telemetry", "curation", "drift", "builds", "releases"))
WRITES = frozenset({"audit:read", "curation:write", "drift:write", "builds:write", "releases:halt"})
SCOPES = {
    "viewer": READS,
    "operator": READS | WRITES,
    "releaser": READS | WRITES | {"releases:write"},
    "admin": READS | WRITES | {"releases:write", "identity:read", "identity:write"},
}
DAY = 20_786
NOW = DAY * 86_400 + 51_000.0
OLD, NEW = "a" * 96, "b" * 96
EVIL = "<script>alert(1)</script>"


@dataclass
class Twin:
    """State of the imagined platform. `down` names prefixes that answer 503."""

    rollouts: dict[str, Rollout] = field(default_factory=dict)
    devices: list[DeviceRecord] = field(default_factory=list)
    days: list[CohortDay] = field(default_factory=list)
    alarms: list[DriftAlarm] = field(default_factory=list)
    clusters: list[Cluster] = field(default_factory=list)
    builds: dict[str, Build] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    sent: list[tuple[str, str]] = field(default_factory=list)
    killed: bool = False
    alerts: list[dict[str, object]] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, str | None] = field(default_factory=dict)
    provider: str | None = None
    tampered: str = ""
    tokens: list[dict[str, object]] = field(default_factory=list)
    thresholds: list[dict[str, object]] = field(default_factory=list)
    opened: int = 0
    flows: list[dict[str, object]] = field(default_factory=list)
    ranges: list[tuple[str, str]] = field(default_factory=list)
    people: dict[str, dict[str, object]] = field(default_factory=dict)
    searches: dict[str, dict[str, object]] = field(default_factory=dict)

    def enter(self, name: str | None) -> dict[str, object]:
        """A new session, of an account or of the bare token."""
        self.opened += 1
        token = f"el_{self.opened:016x}_session-of-the-twin"
        self.sessions[token] = name
        return {"token": token, "name": name or "embedded", "scopes": [], "idle_s": 60, "ends": "2030-01-01T00:00:00Z"}

    def scopes(self, token: str) -> frozenset[str]:
        """What a token opens; nothing for one that is unknown."""
        if token == TOKEN:
            return SCOPES["admin"]
        name = self.sessions.get(token, "")
        return frozenset() if name == "" else SCOPES[self.roles[name] if name else "admin"]


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.answer = JSONResponse({"title": "Refused", "status": status, "detail": detail}, status_code=status)


def bearer(request: Request) -> str:
    """The token of a request."""
    return request.headers.get("authorization", "").removeprefix("Bearer ")


def install(app: FastAPI) -> None:
    """Let the twin's refusals be answers."""

    async def refuse(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Refusal)
        return error.answer

    app.add_exception_handler(Refusal, refuse)
