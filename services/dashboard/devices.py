"""*Devices*: search the fleet, and look at one device: what it runs, what it tried, when it was heard."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from contracts.wire import DeviceDetail, DeviceList
from services.dashboard.guard import Operator
from services.dashboard.languages import _
from services.dashboard.limits import LIMITS
from services.dashboard.lists import query_string
from services.dashboard.pages import missing_page, page
from services.dashboard.paths import segment
from services.dashboard.platform import Missing, Platform
from services.kit.settings import settings

router = APIRouter()
HOME = "/console/devices"
Text = Annotated[str, Query(max_length=96)]
Rule = Annotated[str, Query(max_length=512)]
Cursor = Annotated[str, Query(max_length=512)]


@router.get(HOME)
async def show_devices(
    operator: Operator, q: Text = "", device_class: Text = "", running: Text = "", rule: Rule = "", cursor: Cursor = ""
) -> Response:
    """A page of devices, by id."""
    wanted = {"q": q.strip()[:64], "device_class": device_class.strip()[:64], "running": running.strip().lower()}
    wanted["rule"] = rule.strip()
    given = {name: value for name, value in wanted.items() if value}
    asked = {**given, **({"cursor": cursor} if cursor else {})}
    async with Platform(settings().base_url, operator.token) as platform:
        found = await platform.get(DeviceList, "/releases/v1/devices", limit=LIMITS.page_rows, **asked)
    following = None if isinstance(found, Missing) else found.value.next_cursor
    return page(
        "devices.html",
        session=operator,
        here=HOME,
        found=found,
        wanted=wanted,
        filtered=bool(given),
        more=query_string(given, following),
        paged=bool(cursor),
    )


@router.get(HOME + "/{device_id}")
async def show_device(operator: Operator, device_id: str) -> Response:
    """One device."""
    async with Platform(settings().base_url, operator.token) as platform:
        found = await platform.get(DeviceDetail, f"/releases/v1/devices/{segment(device_id)}")
    if isinstance(found, Missing):
        return missing_page(operator, _("Device %(id)s", id=device_id[:64]), found, HOME)
    return page("device.html", session=operator, here=HOME, device=found.value)
