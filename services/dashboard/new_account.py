"""A new account, with a one-time password that is shown once."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.responses import Response

from contracts.wire.identity import AccountAnswer, AccountRequest, Role
from services.dashboard.accounts import API, HOME, RULES, Reason, Word, shown_once
from services.dashboard.guard import Operator, OwnForm
from services.dashboard.languages import _
from services.dashboard.pages import forbidden, page
from services.dashboard.platform import Missing, Platform
from services.dashboard.sessions import Session
from services.kit.settings import settings

router = APIRouter()
NEW = "/console/new-account"


@router.get(NEW)
async def show_new(operator: Operator) -> Response:
    """Name, role and reason of a new account."""
    return _new(operator, "", Role.VIEWER.value, "", "")


@router.post(NEW)
async def make(operator: OwnForm, name: Word = "", role: Word = "viewer", reason: Reason = "") -> Response:
    """Make an account with a one-time password and show it, this once."""
    if not operator.may(RULES):
        return forbidden(operator, RULES)
    try:
        wanted = AccountRequest(name=name.strip(), role=Role(role), one_time=True, reason=reason.strip())
    except (ValidationError, ValueError):
        return _new(operator, name, role, reason, _problem(name.strip(), reason))
    async with Platform(settings().base_url, operator.token) as platform:
        made = await platform.create(AccountAnswer, API, wanted)
    if isinstance(made, Missing):
        return _new(operator, name, role, reason, _("Nothing was made. %(why)s", why=made.reason), made.status or 503)
    return shown_once(operator, made.value, 201)


def _new(operator: Session, name: str, role: str, reason: str, problem: str, status: int = 422) -> Response:
    if not operator.may(RULES):
        return forbidden(operator, RULES)
    return page(
        "person_new.html",
        status=status if problem else 200,
        session=operator,
        here=HOME,
        roles=tuple(Role),
        name=name,
        role=role,
        reason=reason,
        problem=problem,
    )


def _problem(name: str, reason: str) -> str:
    if len(reason.strip()) < 3:
        return _("Say why, in at least three letters.")
    return _(
        "A name has 2 to 63 small letters, digits, dots, dashes and underscores, and begins with a letter or digit."
    )
