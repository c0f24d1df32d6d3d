"""Accounts, their sessions, and an audit trail whose hash chain holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from benchmarks.watching.copying import Row
from benchmarks.watching.scale import DAY_S, Scale
from services.kit.audit_chain import START, link_hash

ACCOUNTS, ACCOUNT_COLUMNS = "identity.accounts", ("name", "role", "disabled", "created_at")
SESSIONS, SESSION_COLUMNS = (
    "identity.sessions",
    ("token_id", "account", "holder", "method", "browser", "started_at", "seen_at", "ends_at"),
)
API_TOKENS, API_TOKEN_COLUMNS = "identity.api_tokens", ("token_id", "account", "label")
TOKENS, TOKEN_COLUMNS = "kit.tokens", ("id", "secret_hash", "kind", "subject_id", "scopes", "expires_at")
AUDIT, AUDIT_COLUMNS = "kit.audit", ("at", "actor", "action", "subject", "detail", "trace_id", "place", "link")
ROLES = ("viewer", "viewer", "viewer", "operator", "operator", "releaser", "admin")
SESSIONS_EACH = 4
API_TOKENS_EACH = 5
STEPS = ("rollout.created", "rollout.started", "rollout.advanced", "rollout.advanced", "rollout.completed")
OTHERS = ("session.started", "session.ended", "build.requested", "drift.evaluate", "curation.run")
RARE = "kill-switch.on"


def accounts(scale: Scale) -> Iterator[Row]:
    """People without a password: they sign in at a provider."""
    for number in range(scale.accounts):
        yield f"person-{number:03d}", ROLES[number % len(ROLES)], False, _moment(scale.now - number * DAY_S)


def sessions(scale: Scale) -> Iterator[Row]:
    """Open sessions of each account."""
    for number in range(scale.accounts * SESSIONS_EACH):
        name, at = f"person-{number % scale.accounts:03d}", scale.now - 60 * (number % 40)
        ends = _moment(at + DAY_S / 3)
        yield scale.name("session", number, 16), name, name, "provider", "Firefox", _moment(at), _moment(at), ends


def session_tokens(scale: Scale) -> Iterator[Row]:
    """The tokens behind the sessions."""
    for number in range(scale.accounts * SESSIONS_EACH):
        name = f"person-{number % scale.accounts:03d}"
        ends = _moment(scale.now + DAY_S / 3)
        yield scale.name("session", number, 16), bytes.fromhex(scale.name("s", number, 64)), "operator", name, (), ends


def api_tokens(scale: Scale) -> Iterator[Row]:
    """Tokens that each account made for scripts."""
    for number in range(scale.accounts * API_TOKENS_EACH):
        yield api_token(scale, number), f"person-{number % scale.accounts:03d}", f"nightly report {number}"


def api_token_rows(scale: Scale) -> Iterator[Row]:
    """What they are allowed, and until when."""
    for number in range(scale.accounts * API_TOKENS_EACH):
        name, ends = f"person-{number % scale.accounts:03d}", _moment(scale.now + 30 * DAY_S)
        secret = bytes.fromhex(scale.name("t", number, 64))
        yield api_token(scale, number), secret, "operator", name, ("releases:read",), ends


def api_token(scale: Scale, number: int) -> str:
    """Id of the API token with this number; it belongs to account `number` modulo their count."""
    return scale.name("api", number, 16)


def audit(scale: Scale) -> Iterator[Row]:
    """Who did what, oldest first, linked as the platform links it. The kill switch was used a few times only."""
    link = START
    rollouts = [scale.rollout(release) for release in range(scale.releases)]
    for place in range(1, scale.audit + 1):
        at = datetime.fromtimestamp(int(scale.now), UTC) - timedelta(seconds=157 * (scale.audit - place))
        if place % 40_000 == 11:
            actor, action, subject = "operator:person-007", RARE, "fleet"
        elif place % 3:
            release = place * len(rollouts) // (scale.audit + 1)
            actor, action, subject = "system:verdict", STEPS[place % len(STEPS)], f"rollout:{rollouts[release]}"
        else:
            actor = f"operator:person-{place % scale.accounts:03d}"
            action, subject = OTHERS[place % len(OTHERS)], f"session:{place:x}"
        detail = {"why": "within every margin", "stage": place % 3}
        link = link_hash(link, place, at, actor, action, subject, detail, "")
        yield at.isoformat(), actor, action, subject, json.dumps(detail), "", place, link


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
