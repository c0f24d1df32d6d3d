"""Telemetry's API: two POSTs, both answered 202 after a durable write."""

from typing import Annotated

from fastapi import APIRouter, Body, Header

from contracts.wire import Accepted, SegmentUpload
from services.kit.auth import Subject, requires
from services.kit.database import SessionDep
from services.kit.problems import (
    Forbidden,
    Problem,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    declare,
)
from services.kit.ratelimit import TokenBucket
from services.telemetry import service
from services.telemetry.limits import LIMITS

router = APIRouter(tags=["telemetry"])

DRF1 = "application/octet-stream"
DEVICE_BUCKET = TokenBucket("telemetry.device", LIMITS.device)
EVERYONE_BUCKET = TokenBucket("telemetry.everyone", LIMITS.everyone)

Device = Annotated[Subject, requires("telemetry:write")]


class WrongMediaType(Problem):
    """The body is of another media type than the route takes."""

    status, slug, title = 415, "wrong-media-type", "Another media type is needed"


PROBLEMS = declare(Unauthorized, Forbidden, TooLarge, TooManyRequests, Unavailable)


@router.post("/v1/reports", status_code=202, responses=PROBLEMS | declare(service.BadReport, WrongMediaType))
def post_report(
    device: Device,
    session: SessionDep,
    body: Annotated[bytes, Body(media_type=DRF1)],
    content_type: Annotated[str, Header()],
) -> Accepted:
    """Take a daily drift report (DRF1, at most 2,048 bytes). Natural key: pseudonym and day."""
    if content_type != DRF1:
        raise WrongMediaType(f"a report is sent as {DRF1}, this came as {content_type[:80]}")
    _admit(device)
    return service.accept_report(session, body)


@router.post("/v1/segments", status_code=202, responses=PROBLEMS)
def post_segment(device: Device, session: SessionDep, upload: SegmentUpload) -> Accepted:
    """Take a hard-example segment (JSON under 50 KB). Natural key: `segment_id`."""
    _admit(device)
    return service.accept_segment(session, upload)


def _admit(device: Subject) -> None:
    DEVICE_BUCKET.take(device.token_id)
    EVERYONE_BUCKET.take("all")
