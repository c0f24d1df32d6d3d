"""Accounts: made, changed and disabled by an administrator, signed in to with a password.

Invariants: a change ends the account's sessions, so nobody goes on with rights of yesterday; tokens that would allow
more than the new role are revoked with it; one administrator always stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from contracts.wire.identity import Account, AccountChange, AccountRequest, PasswordChange, Role, SessionAnswer, SignIn
from services.identity import api_tokens, failures, passwords, sessions
from services.identity.errors import LastAdmin, NameTaken, UnknownAccount, WrongSignIn
from services.identity.models import AccountRow
from services.identity.roles import SCOPES_OF
from services.identity.sessions import Origin
from services.kit.audit import record
from services.kit.auth import Subject
from services.kit.auth import revoke as revoke_everything
from services.kit.database import transaction
from services.kit.pages import PageRequest

RESERVED = frozenset({"embedded", "bench", "system"})
WRONG = "name or password is wrong, or the account is disabled; an administrator can set a new password"


def sign_in(request: SignIn) -> SessionAnswer:
    """Check name and password and begin a session. Raises WrongSignIn, Locked.

    Three short transactions, so that none is open while the password is hashed and a failure stays counted.
    """
    with transaction() as session:
        failures.begin_try(session, request.name)
        row = session.get(AccountRow, request.name)
        known = row.password_hash if row is not None and not row.disabled else None
    password = request.password.get_secret_value()
    if not passwords.verify(password, known):
        raise WrongSignIn(WRONG)
    renewed = passwords.hash_password(password) if known and passwords.outdated(known) else None
    with transaction() as session:
        account = session.get(AccountRow, request.name, with_for_update=True)
        if account is None or account.disabled or account.password_hash != known:
            raise WrongSignIn(WRONG)
        failures.forget(session, request.name)
        account.password_hash = renewed or known
        return sessions.start_for_account(session, account, Origin("password", request.browser))


def create(session: Session, subject: Subject, request: AccountRequest) -> AccountRow:
    """A new account. Raises NameTaken, WeakPassword."""
    if request.name in RESERVED:
        raise NameTaken(f"the name {request.name} belongs to the platform itself; choose another")
    hashed = _hashed(request.password.get_secret_value(), request.name) if request.password else None
    values = {"name": request.name, "role": request.role.value, "password_hash": hashed}
    done = session.execute(insert(AccountRow).values(**values).on_conflict_do_nothing().returning(AccountRow.name))
    if done.first() is None:
        raise NameTaken(f"there is an account {request.name} already; change it, or choose another name")
    record(session, subject, "account.created", f"account:{request.name}", {"role": request.role.value})
    return session.get_one(AccountRow, request.name)


def change(session: Session, subject: Subject, name: str, wanted: AccountChange) -> AccountRow:
    """Change role, password or whether it may be used. Raises UnknownAccount, LastAdmin, WeakPassword."""
    administrators = _lock_administrators(session)
    row = find(session, name)
    if administrators == [name] and (wanted.disabled or wanted.role not in (None, Role.ADMIN)):
        raise LastAdmin(f"{name} is the last administrator; give somebody else the role first")
    if wanted.password is not None:
        row.password_hash = _hashed(wanted.password.get_secret_value(), name)
        failures.forget(session, name)
    if wanted.role is not None:
        row.role = wanted.role.value
        api_tokens.revoke_beyond(session, name, SCOPES_OF[wanted.role])
    if wanted.disabled is not None:
        row.disabled = wanted.disabled
    ended = revoke_everything(session, "operator", name) if row.disabled else sessions.end_all(session, name)
    said = wanted.model_dump(mode="json", include={"role", "disabled"}, exclude_none=True)
    detail = {**said, "password": wanted.password is not None, "sessions_ended": ended, "reason": wanted.reason}
    record(session, subject, "account.changed", f"account:{name}", detail)
    return row


def change_own_password(subject: Subject, request: PasswordChange, browser: str) -> SessionAnswer:
    """A person changes their own password: every session ends and a new one begins. Raises WrongSignIn, Locked."""
    with transaction() as session:
        account = sessions.personal(session, subject).account or ""
        failures.begin_try(session, account)
        known = find(session, account).password_hash
    if not passwords.verify(request.current.get_secret_value(), known):
        raise WrongSignIn("the present password is wrong; nothing was changed")
    hashed = _hashed(request.new.get_secret_value(), account)
    with transaction() as session:
        row = session.get_one(AccountRow, account, with_for_update=True)
        if row.disabled or row.password_hash != known:
            raise WrongSignIn("the account was changed in between; sign in again")
        failures.forget(session, account)
        row.password_hash = hashed
        sessions.end_all(session, account)
        record(session, subject, "account.password", f"account:{account}")
        return sessions.start_for_account(session, row, Origin("password", browser))


def find(session: Session, name: str) -> AccountRow:
    """The account, locked until the transaction ends. Raises UnknownAccount."""
    row = session.get(AccountRow, name, with_for_update=True)
    if row is None:
        raise UnknownAccount(f"there is no account {name[:64]!r}; `edgeloop admin list` names them")
    return row


def page(session: Session, request: PageRequest) -> Sequence[AccountRow]:
    """Accounts by name, one more than asked for."""
    query = select(AccountRow).order_by(AccountRow.name).limit(request.limit + 1)
    if request.after:
        query = query.where(AccountRow.name > str(request.after[0]))
    return session.scalars(query).all()


def view(session: Session, row: AccountRow) -> Account:
    """An account as an administrator sees it."""
    return views(session, [row])[0]


def views(session: Session, rows: Sequence[AccountRow]) -> list[Account]:
    """Accounts as an administrator sees them."""
    counted = sessions.open_counts(session, [row.name for row in rows])
    return [
        Account(
            name=row.name,
            role=Role(row.role),
            has_password=row.password_hash is not None,
            external=row.subject is not None,
            disabled=row.disabled,
            created=row.created_at,
            sessions=counted.get(row.name, 0),
        )
        for row in rows
    ]


def _lock_administrators(session: Session) -> list[str]:
    """Names of the administrators that may sign in; nobody else changes them until this transaction ends."""
    query = select(AccountRow).where(AccountRow.role == Role.ADMIN.value, ~AccountRow.disabled)
    return [row.name for row in session.scalars(query.order_by(AccountRow.name).with_for_update())]


def _hashed(password: str, name: str) -> str:
    passwords.check_strength(password, name)
    return passwords.hash_password(password)
