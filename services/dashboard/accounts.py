"""*Accounts*: everybody who may sign in, for administrators: made, changed, locked out, signed out, with a reason each.

Every change goes by a page that says what it does and asks why; it carries the version of the account that was seen,
so that two administrators do not undo each other (412 becomes "look again"). The services check the scope again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Query
from starlette.responses import RedirectResponse, Response

from contracts.wire.identity import (
    Account,
    AccountAnswer,
    AccountChange,
    AccountDetail,
    AccountList,
    AccountReason,
    Role,
)
from services.dashboard.guard import Operator, OwnForm
from services.dashboard.languages import _, marked
from services.dashboard.limits import LIMITS
from services.dashboard.lists import query_string
from services.dashboard.pages import HEADERS, forbidden, missing_page, page
from services.dashboard.paths import segment
from services.dashboard.platform import Loaded, Missing, Platform
from services.dashboard.sessions import Session
from services.kit.settings import settings

router = APIRouter()
HOME = "/console/accounts"
API = "/identity/v1/accounts"
SEES, RULES = "identity:read", "identity:write"
Reason = Annotated[str, Form(max_length=400)]
Word = Annotated[str, Form(max_length=80)]


@dataclass(frozen=True)
class Change:
    """One verb, as `edgeloop admin` has it. `fits` says for which accounts it makes sense."""

    verb: str
    label: str
    effect: str
    fits: Callable[[Account], bool]
    danger: bool = False


CHANGES = {
    change.verb: change
    for change in (
        Change(
            "role",
            marked("Change role"),
            marked("Their sessions end, and API tokens that would allow more than the new role are revoked."),
            lambda account: True,
        ),
        Change(
            "password",
            marked("New one-time password"),
            marked("Their sessions and lock-outs end. At the next sign-in they must choose another password."),
            lambda account: not account.disabled,
        ),
        Change(
            "unlock",
            marked("Unlock"),
            marked("Wrong passwords in a row are forgotten, so that the next try need not wait. Sessions stay."),
            lambda account: account.locked_until is not None,
        ),
        Change(
            "sign-out",
            marked("End sessions"),
            marked("Every session of theirs ends now. They may sign in again."),
            lambda account: account.sessions > 0,
        ),
        Change(
            "enable",
            marked("Enable"),
            marked("They may sign in again. API tokens that were revoked stay revoked."),
            lambda account: account.disabled,
        ),
        Change(
            "disable",
            marked("Disable"),
            marked("They cannot sign in any more; sessions end and API tokens are revoked now."),
            lambda account: not account.disabled,
            True,
        ),
    )
}


@router.get(HOME)
async def show_accounts(operator: Operator, cursor: Annotated[str, Query(max_length=512)] = "") -> Response:
    """A page of accounts, by name."""
    if not operator.may(SEES):
        return forbidden(operator, SEES)
    asked = {"cursor": cursor} if cursor else {}
    async with Platform(settings().base_url, operator.token) as platform:
        found = await platform.get(AccountList, API, limit=LIMITS.page_rows, **asked)
    following = None if isinstance(found, Missing) else found.value.next_cursor
    return page(
        "accounts.html",
        session=operator,
        here=HOME,
        found=found,
        more=query_string({}, following),
        paged=bool(cursor),
    )


@router.get(HOME + "/{name}")
async def show_account(operator: Operator, name: str) -> Response:
    """One account: role, standing, open sessions, valid tokens."""
    if not operator.may(SEES):
        return forbidden(operator, SEES)
    found = await _detail(operator, name)
    if isinstance(found, Missing):
        return missing_page(operator, _("Account %(name)s", name=name[:64]), found, HOME)
    fitting = [change for change in CHANGES.values() if change.fits(found.value)]
    return page("person.html", session=operator, here=HOME, account=found.value, changes=fitting)


@router.get(HOME + "/{name}/{verb}")
async def confirm(operator: Operator, name: str, verb: str) -> Response:
    """What the change does; asks why."""
    return await _form(operator, name, verb)


@router.post(HOME + "/{name}/{verb}")
async def change(
    operator: OwnForm,
    name: str,
    verb: str,
    version: Annotated[int, Form(ge=0, le=10**9)],
    role: Word = "",
    reason: Reason = "",
) -> Response:
    """Change it once, if the account still is as the operator saw it."""
    if verb not in CHANGES or not operator.may(RULES):
        return await _form(operator, name, verb)
    if len(reason.strip()) < 3:
        return await _form(operator, name, verb, reason, _("Say why, in at least three letters."), role)
    if verb == "role" and role not in {one.value for one in Role}:
        return await _form(operator, name, verb, reason, _("Choose a role."), role)
    done = await _send(operator, name, verb, version, Role(role) if verb == "role" else None, reason.strip())
    if isinstance(done, Missing):
        return missing_page(operator, _("%(what)s: nothing was done", what=_(CHANGES[verb].label)), done, _home(name))
    if done.value.one_time_password is not None:
        return shown_once(operator, done.value, 200)
    return RedirectResponse(_home(name), status_code=303, headers=HEADERS)


@router.get(HOME + "/{name}/tokens/{token_id}")
async def confirm_revoke(operator: Operator, name: str, token_id: str) -> Response:
    """Which token would be revoked; asks why."""
    return await _token_form(operator, name, token_id)


@router.post(HOME + "/{name}/tokens/{token_id}")
async def revoke(operator: OwnForm, name: str, token_id: str, reason: Reason = "") -> Response:
    """Revoke an API token of somebody."""
    if not operator.may(RULES):
        return forbidden(operator, RULES)
    if len(reason.strip()) < 3:
        return await _token_form(operator, name, token_id, reason, _("Say why, in at least three letters."))
    path = f"{API}/{segment(name)}/tokens/{segment(token_id)}/revoke"
    async with Platform(settings().base_url, operator.token) as platform:
        failed = await platform.post(path, AccountReason(reason=reason.strip()))
    if failed is not None:
        return missing_page(operator, _("%(what)s: nothing was done", what=_("Revoke")), failed, _home(name))
    return RedirectResponse(_home(name), status_code=303, headers=HEADERS)


def shown_once(operator: Session, account: AccountAnswer, status: int) -> Response:
    """The page with a one-time password: the only time that it is shown."""
    return page("person_password.html", status=status, session=operator, here=HOME, account=account)


def _home(name: str) -> str:
    return f"{HOME}/{segment(name)}"


async def _detail(operator: Session, name: str) -> Loaded[AccountDetail] | Missing:
    async with Platform(settings().base_url, operator.token) as platform:
        return await platform.get(AccountDetail, f"{API}/{segment(name)}")


async def _send(
    operator: Session, name: str, verb: str, version: int, role: Role | None, reason: str
) -> Loaded[AccountAnswer] | Missing:
    seen = {"If-Match": f'"{version}"'}
    path = f"{API}/{segment(name)}"
    async with Platform(settings().base_url, operator.token) as platform:
        if verb == "unlock":
            return await platform.change("POST", AccountAnswer, f"{path}/unlock", AccountReason(reason=reason), seen)
        disabled = {"disable": True, "enable": False}.get(verb)
        wanted = AccountChange(role=role, disabled=disabled, one_time=verb == "password", reason=reason)
        return await platform.change("PATCH", AccountAnswer, path, wanted, seen)


async def _form(
    operator: Session, name: str, verb: str, reason: str = "", problem: str = "", role: str = ""
) -> Response:
    if not operator.may(RULES):
        return forbidden(operator, RULES)
    wanted = CHANGES.get(verb)
    found = await _detail(operator, name) if wanted else Missing(verb, _("has no such page"), 404)
    if wanted is None or isinstance(found, Missing):
        assert isinstance(found, Missing)
        return missing_page(operator, _("Account %(name)s", name=name[:64]), found, HOME)
    return page(
        "person_change.html",
        status=422 if problem else 200,
        session=operator,
        here=HOME,
        account=found.value,
        change=wanted,
        possible=wanted.fits(found.value),
        roles=tuple(Role),
        role=role or found.value.role.value,
        reason=reason,
        problem=problem,
    )


async def _token_form(operator: Session, name: str, token_id: str, reason: str = "", problem: str = "") -> Response:
    if not operator.may(RULES):
        return forbidden(operator, RULES)
    found = await _detail(operator, name)
    if isinstance(found, Missing):
        return missing_page(operator, _("Account %(name)s", name=name[:64]), found, HOME)
    token = next((one for one in found.value.api_tokens if one.id == token_id), None)
    return page(
        "person_token.html",
        status=404 if token is None else 422 if problem else 200,
        session=operator,
        here=HOME,
        account=found.value,
        token=token,
        reason=reason,
        problem=problem,
    )
