"""From a provider's claims to an account: which name, which role, and whose account it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from contracts.wire.identity import Role, SessionAnswer
from services.identity import accounts, api_tokens, sessions
from services.identity.errors import SignInRefused
from services.identity.limits import PROVIDER, ProviderSettings
from services.identity.models import AccountRow
from services.identity.roles import SCOPES_OF, highest
from services.identity.sessions import Origin
from services.kit.audit import record

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,62}")
Claims = Mapping[str, Any]  # Any: JSON


def role_of(settings: ProviderSettings, claims: Claims) -> Role:
    """The highest role that the claim's values give. Raises SignInRefused for none."""
    value = claims.get(settings.role_claim)
    values = value[: PROVIDER.groups] if isinstance(value, list) else [value]
    known = {role.value: role for role in Role}
    named = (settings.roles.get(group, "") for group in values if isinstance(group, str))
    found = highest(known[name] for name in named if name in known) or known.get(settings.default_role)
    if found is None:
        raise SignInRefused(
            f"the provider knows you, but your {settings.role_claim} give you no role here; ask an administrator"
        )
    return found


def name_of(settings: ProviderSettings, claims: Claims) -> str:
    """A name for the account, from the claim. Raises SignInRefused."""
    plain = str(claims.get(settings.name_claim) or claims["sub"]).split("@", 1)[0].casefold()
    name = re.sub(r"[^a-z0-9._-]", "-", plain)[:63].lstrip("-._")
    if not NAME.fullmatch(name) or name in accounts.RESERVED:
        raise SignInRefused(f"the claim {settings.name_claim} makes no usable name; ask an administrator")
    return name


def sign_in(session: Session, settings: ProviderSettings, claims: Claims, browser: str) -> SessionAnswer:
    """A session for whom the claims name; the first time an account is made. Raises SignInRefused."""
    role = role_of(settings, claims)
    account = _known(session, settings.issuer, claims["sub"]) or _new(session, settings, claims, role)
    if account.disabled:
        raise SignInRefused("this account is disabled; ask an administrator")
    if account.role != role.value:
        _change_role(session, account, role)
    return sessions.start_for_account(session, account, Origin("provider", browser))


def _known(session: Session, issuer: str, subject: str) -> AccountRow | None:
    query = select(AccountRow).where(AccountRow.issuer == issuer, AccountRow.subject == subject)
    return session.scalars(query.with_for_update()).first()


def _new(session: Session, settings: ProviderSettings, claims: Claims, role: Role) -> AccountRow:
    name = name_of(settings, claims)
    values = {"name": name, "role": role.value, "issuer": settings.issuer, "subject": claims["sub"]}
    done = session.execute(insert(AccountRow).values(**values).on_conflict_do_nothing().returning(AccountRow.name))
    if done.first() is None:
        known = _known(session, settings.issuer, claims["sub"])
        if known is not None:
            return known  # the same person came twice at once
        raise SignInRefused(f"the name {name} belongs to an account of another origin; ask an administrator")
    record(session, f"operator:{name}", "account.created", f"account:{name}", {"role": role.value, "by": "provider"})
    return session.get_one(AccountRow, name)


def _change_role(session: Session, account: AccountRow, role: Role) -> None:
    """The provider says otherwise than last time: sessions and tokens of the old rights end."""
    detail = {"from": account.role, "to": role.value, "by": "provider"}
    account.role = role.value
    account.version += 1
    sessions.end_all(session, account.name)
    api_tokens.revoke_beyond(session, account.name, SCOPES_OF[role])
    record(session, f"operator:{account.name}", "account.changed", f"account:{account.name}", detail)
