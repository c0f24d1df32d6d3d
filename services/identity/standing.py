"""What is open in the name of accounts: sessions, API tokens, lock-outs, for a whole page of them at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from services.identity import failures
from services.identity.models import ApiTokenRow, FailureRow, SessionRow
from services.kit.models import Token


@dataclass(frozen=True)
class Standing:
    """Counts of what is valid now; `locked_until` only while it lies ahead."""

    sessions: int = 0
    tokens: int = 0
    locked_until: datetime | None = None


def standings(session: Session, names: Collection[str]) -> dict[str, Standing]:
    """By name, three queries however many there are."""
    now = datetime.now(UTC)
    valid = (Token.revoked_at.is_(None), Token.expires_at > now)
    opened = (
        select(SessionRow.holder, func.count())
        .join(Token, Token.id == SessionRow.token_id)
        .where(SessionRow.holder.in_(names), SessionRow.ends_at > now, *valid)
        .group_by(SessionRow.holder)
    )
    made = (
        select(ApiTokenRow.account, func.count())
        .join(Token, Token.id == ApiTokenRow.token_id)
        .where(ApiTokenRow.account.in_(names), *valid)
        .group_by(ApiTokenRow.account)
    )
    hashes = {failures.hash_of(name): name for name in names}
    locked = select(FailureRow.name_hash, FailureRow.locked_until).where(
        FailureRow.name_hash.in_(hashes), FailureRow.locked_until > now
    )
    sessions = {row[0]: int(row[1]) for row in session.execute(opened)}
    tokens = {row[0]: int(row[1]) for row in session.execute(made)}
    until = {hashes[found]: moment for found, moment in session.execute(locked)}
    return {name: Standing(sessions.get(name, 0), tokens.get(name, 0), until.get(name)) for name in names}
