"""One-time passwords: made here, told once, good for one sign-in within a few days, then another must be chosen.

Until it is, the session that began with one holds no scope: it opens its own account's password and nothing else.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta

from services.identity import passwords
from services.identity.limits import PASSWORD
from services.identity.models import AccountRow


def give(row: AccountRow) -> str:
    """Give the account a one-time password and return it in clear, this once."""
    made = secrets.token_urlsafe(PASSWORD.one_time_bytes)
    row.password_hash = passwords.hash_password(made)
    row.must_change = True
    row.password_until = datetime.now(UTC) + timedelta(seconds=PASSWORD.one_time_s)
    return made


def settle(row: AccountRow, hashed: str) -> None:
    """Give the account a password that was chosen: no longer a one-time password."""
    row.password_hash, row.must_change, row.password_until = hashed, False, None


def usable_hash(row: AccountRow | None) -> str | None:
    """The hash to check a password against; None for nobody, a disabled account, and a one-time password too old."""
    if row is None or row.disabled:
        return None
    if row.password_until is not None and row.password_until <= datetime.now(UTC):
        return None
    return row.password_hash
