"""*Settings*: what a verdict of drift depends on, with units; who changed what for which cohorts, and the way to do it;
below, what the other services go by.

Changing goes by a page that shows old and new value side by side and asks why.
"""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

from fastapi import APIRouter, Form, Query
from starlette.responses import RedirectResponse, Response

from contracts.wire.base import Answer
from services.dashboard.guard import Operator, OwnForm
from services.dashboard.held_settings import held_by_all
from services.dashboard.languages import _
from services.dashboard.limits import LIMITS
from services.dashboard.lists import query_string
from services.dashboard.pages import HEADERS, forbidden, page
from services.dashboard.platform import Loaded, Missing, Platform
from services.dashboard.sessions import Session
from services.kit.settings import settings

router = APIRouter()
HOME = "/console/settings"
NEEDS = "drift:write"
COHORTS = re.compile(r"[A-Za-z0-9._-]{1,24}/([A-Za-z0-9._-]{1,32}|\*)")
Cursor = Annotated[str, Query(max_length=512)]
Text = Annotated[str, Form(max_length=80)]


class Setting(Answer):
    """A setting of the process."""

    name: str
    value: float
    default: float
    meaning: str
    by_cohort: bool


class SettingList(Answer):
    """All of them."""

    items: tuple[Setting, ...]


class Change(Answer):
    """A change for a cohort or a device class."""

    id: int
    cohorts: str
    values: dict[str, float]
    reason: str
    author: str
    created: float


class ChangeList(Answer):
    """A page of changes, newest first."""

    items: tuple[Change, ...]
    next_cursor: str | None = None


class Wanted(Answer):
    """A change as it is sent."""

    cohorts: str
    values: dict[str, float]
    reason: str


@router.get(HOME)
async def show_settings(operator: Operator, cursor: Cursor = "") -> Response:
    """Settings and their history."""
    asked = {"cursor": cursor} if cursor else {}
    async with Platform(settings().base_url, operator.token) as platform:
        known, changes, held = await asyncio.gather(
            platform.get(SettingList, "/drift/v1/settings"),
            platform.get(ChangeList, "/drift/v1/thresholds", limit=LIMITS.page_rows, **asked),
            held_by_all(platform),
        )
    following = None if isinstance(changes, Missing) else changes.value.next_cursor
    return page(
        "settings.html",
        session=operator,
        here=HOME,
        known=known,
        changes=changes,
        held=held,
        more=query_string({}, following),
        paged=bool(cursor),
    )


@router.get(HOME + "/change")
async def show_change(
    operator: Operator,
    name: Annotated[str, Query(max_length=40)],
    cohorts: Annotated[str, Query(max_length=80)] = "",
    value: Annotated[str, Query(max_length=40)] = "",
) -> Response:
    """What will change for whom; asks why."""
    return await _form(operator, name, cohorts, value)


@router.post(HOME + "/change")
async def change(
    operator: OwnForm, name: Text, cohorts: Text = "", value: Text = "", reason: Annotated[str, Form()] = ""
) -> Response:
    """Change one threshold of one cohort or device class, keeping its other thresholds."""
    if not operator.may(NEEDS):
        return forbidden(operator, NEEDS)
    cohorts, reason = cohorts.strip(), reason.strip()[:400]
    if not COHORTS.fullmatch(cohorts):
        return await _form(
            operator, name, cohorts, value, reason, _("Write class/scene, or class/* for a whole class.")
        )
    try:
        number = float(value)
    except ValueError:
        return await _form(operator, name, cohorts, value, reason, _("The value is not a number."))
    if len(reason) < 3:
        return await _form(operator, name, cohorts, value, reason, _("Say why, in at least three letters."))
    async with Platform(settings().base_url, operator.token) as platform:
        before = await _newest(platform, cohorts)
        if isinstance(before, Missing):
            return await _form(
                operator, name, cohorts, value, reason, _("The service %(reason)s", reason=before.reason)
            )
        body = Wanted(cohorts=cohorts, values={**before, name: number}, reason=reason)
        failed = await platform.post("/drift/v1/thresholds", body)
    if failed is not None:
        return await _form(operator, name, cohorts, value, reason, _("The service %(reason)s", reason=failed.reason))
    return RedirectResponse(HOME, status_code=303, headers=HEADERS)


async def _newest(platform: Platform, cohorts: str) -> dict[str, float] | Missing:
    """The values that hold for these cohorts by now, so that a change of one keeps the others."""
    if not cohorts:
        return {}
    found = await platform.get(ChangeList, "/drift/v1/thresholds", limit=1, cohorts=cohorts)
    if isinstance(found, Missing):
        return found
    return next((item.values for item in found.value.items), {})


async def _form(
    operator: Session, name: str, cohorts: str, value: str, reason: str = "", problem: str = ""
) -> Response:
    if not operator.may(NEEDS):
        return forbidden(operator, NEEDS)
    async with Platform(settings().base_url, operator.token) as platform:
        known, before = await asyncio.gather(
            platform.get(SettingList, "/drift/v1/settings"), _newest(platform, cohorts.strip())
        )
    setting = _named(known, name)
    now = before.get(name) if isinstance(before, dict) else None
    return page(
        "setting_change.html",
        status=422 if problem else 200 if setting else 404,
        session=operator,
        here=HOME,
        setting=setting,
        name=name,
        cohorts=cohorts,
        value=value,
        now=now,
        reason=reason,
        problem=problem,
    )


def _named(known: Loaded[SettingList] | Missing, name: str) -> Setting | None:
    items = () if isinstance(known, Missing) else known.value.items
    return next((item for item in items if item.name == name and item.by_cohort), None)
