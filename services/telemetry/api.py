"""Telemetry's API: two POSTs of devices, both answered 202 after a durable write, and how far the readers are."""

from typing import Annotated

from fastapi import APIRouter, Body, Header, Request

from contracts.wire import Accepted, SegmentUpload
from contracts.wire.settings import HeldSettings
from services.kit.auth import Subject, requires
from services.kit.database import SessionDep
from services.kit.problems import (
    DiskFull,
    Forbidden,
    Problem,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    declare,
)
from services.kit.tokens import requires_fast
from services.telemetry import held, refusals, relay
from services.telemetry.gate import DRF1, SCOPE, GatedRoute, ReportRoute, intake_of
from services.telemetry.intake import BadReport, BadSegment
from services.telemetry.schemas import Standing, StreamLag

router = APIRouter(tags=["telemetry"])
reports = APIRouter(route_class=ReportRoute)
segments = APIRouter(route_class=GatedRoute)

Device = Annotated[Subject, requires_fast(SCOPE)]
Reader = Annotated[Subject, requires("telemetry:read")]


class WrongMediaType(Problem):
    """The body is of another media type than the route takes."""

    status, slug, title = 415, "wrong-media-type", "Another media type is needed"


PROBLEMS = declare(Unauthorized, Forbidden, TooLarge, TooManyRequests, Unavailable, DiskFull)


@reports.post("/v1/reports", status_code=202, responses=PROBLEMS | declare(BadReport, WrongMediaType))
async def post_report(
    _device: Device,
    request: Request,
    body: Annotated[bytes, Body(media_type=DRF1)],
    content_type: Annotated[str, Header()],
) -> Accepted:
    """Take a daily drift report (DRF1, at most 2,048 bytes). Natural key: pseudonym and day."""
    if content_type != DRF1:
        raise WrongMediaType(f"a report is sent as {DRF1}, this came as {content_type[:80]}")
    return await intake_of(request).report(body)


@segments.post("/v1/segments", status_code=202, responses=PROBLEMS | declare(BadSegment))
async def post_segment(_device: Device, request: Request, upload: SegmentUpload) -> Accepted:
    """Take a hard-example segment (JSON under 50 KB). Natural key: `segment_id`."""
    return await intake_of(request).segment(upload)


router.include_router(reports)
router.include_router(segments)


@router.get("/v1/held-settings", responses=declare(Unauthorized, Forbidden))
def get_held_telemetry_settings(_: Reader) -> HeldSettings:
    """How long reports and segments are kept, and how late they may come. Part of the release."""
    return held.held()


@router.get("/v1/standing", responses=declare(Unauthorized, Forbidden, Unavailable))
def get_standing(_reader: Reader, session: SessionDep) -> Standing:
    """How far each stream's reader is behind, and how many messages were refused, by reason."""
    lags = [relay.lag(session, each) for each in relay.RELAYS]
    return Standing(
        streams=[StreamLag.model_validate(lag, from_attributes=True) for lag in lags],
        refused=refusals.by_reason(session),
    )
