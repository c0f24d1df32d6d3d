"""Roles as sets of the platform's scopes. Each role holds all that the one before it holds."""

from __future__ import annotations

from collections.abc import Iterable

from contracts.wire.identity import Role

READS = frozenset(f"{resource}:read" for resource in ("telemetry", "curation", "drift", "builds", "releases"))
OPERATES = READS | {"audit:read", "curation:write", "drift:write", "builds:write", "releases:halt"}
RELEASES = OPERATES | {"releases:write"}
RULES = RELEASES | {"identity:read", "identity:write"}

SCOPES_OF: dict[Role, frozenset[str]] = {
    Role.VIEWER: READS,
    Role.OPERATOR: frozenset(OPERATES),
    Role.RELEASER: frozenset(RELEASES),
    Role.ADMIN: frozenset(RULES),
}
ORDER = tuple(SCOPES_OF)


def highest(roles: Iterable[Role]) -> Role | None:
    """The role that may do most; None of none."""
    return max(roles, key=ORDER.index, default=None)
