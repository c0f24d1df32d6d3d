"""What devices call: enrolment, the state document, feedback, the update repository.

Enrolment and metadata are public: the one carries its own token, the others their own signatures. Targets need a
device's token, so that a model is not handed to passers-by.
"""

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import FileResponse

from contracts.wire.enrolment import EnrolmentRequest, EnrolmentResponse
from contracts.wire.feedback import FeedbackBatch
from contracts.wire.telemetry import Accepted
from services.kit.auth import Subject, requires
from services.kit.database import SessionDep
from services.kit.problems import Forbidden, NotFound, TooManyRequests, Unauthorized, declare
from services.kit.ratelimit import Rate, TokenBucket
from services.kit.storage import ObjectMissing
from services.releases import enrolment, feedback, service, state_document
from services.releases.errors import EnrolmentRefused
from services.releases.limits import DEVICE, STATE
from services.releases.seen import LastSeen

router = APIRouter(tags=["releases: devices"])
SEEN = LastSeen()
STATE_CACHE = state_document.StateCache()
ENROLMENTS = TokenBucket("enrolments", Rate(DEVICE.enrolments_per_second, DEVICE.enrolment_burst))
Updates = Annotated[Subject, requires("updates:read")]
IfNoneMatch = Annotated[str | None, Header(max_length=200)]


@router.post("/v1/enrolments", status_code=201, responses=declare(EnrolmentRefused, TooManyRequests))
def enrol_device(request: EnrolmentRequest, session: SessionDep) -> EnrolmentResponse:
    """Exchange an enrolment token and a public key for an identity and the roots of trust."""
    ENROLMENTS.take("all")
    return enrolment.enrol(session, request)


@router.get("/v1/state", response_class=Response, responses={200: {"content": {"application/json": {}}}, 304: {}})
def get_state_document(subject: Updates, session: SessionDep, if_none_match: IfNoneMatch = None) -> Response:
    """The signed device state document; 304 while it did not change."""

    def load() -> state_document.Served:
        return state_document.latest(session) or state_document.publish(session)

    if subject.kind == "device":
        SEEN.touch(subject.id, service.clock().now())
    served = STATE_CACHE.get(load)
    headers = {"ETag": served.etag, "Cache-Control": f"public, max-age={STATE.ttl_s}"}
    if if_none_match is not None and served.etag in [tag.strip() for tag in if_none_match.split(",")]:
        return Response(status_code=304, headers=headers)
    return Response(served.document, media_type="application/json", headers=headers)


@router.post("/v1/feedback", status_code=202, responses=declare(Unauthorized, Forbidden))
def post_feedback(
    batch: FeedbackBatch, subject: Annotated[Subject, requires("feedback:write")], session: SessionDep
) -> Accepted:
    """Installation steps and health; repeating a report changes nothing."""
    if subject.kind != "device":
        raise Forbidden("only a device may report about itself; use the device's own token")
    taken = feedback.receive(session, subject.id, batch, service.clock().now())
    return Accepted(duplicate=taken.fresh == 0 and taken.repeated > 0)


@router.get("/tuf/metadata/{name}", response_class=Response, responses=declare(NotFound))
def get_update_metadata(name: str, session: SessionDep) -> Response:
    """One signed metadata file. Versioned ones never change; the timestamp is always asked for anew."""
    repository = service.readable_repository(session)
    try:
        data = repository.metadata(name)
    except (ObjectMissing, ValueError) as error:
        raise NotFound(f"the repository has no metadata file {name[:100]!r}") from error
    caching = "no-cache" if name == "timestamp.json" else "public, max-age=86400, immutable"
    return Response(data, media_type="application/json", headers={"Cache-Control": caching})


@router.get("/tuf/targets/{path:path}", response_class=FileResponse, responses=declare(NotFound, Unauthorized))
def get_update_target(path: str, _subject: Updates, _request: Request) -> FileResponse:
    """The bytes of a target, whole or by range; the client checks them against the signed metadata."""
    try:
        file = service.objects().path(f"tuf/targets/{path}")
    except (ObjectMissing, ValueError) as error:
        raise NotFound(f"the repository has no target {path[:200]!r}") from error
    headers = {"Cache-Control": "private, max-age=86400, immutable"}
    return FileResponse(file, media_type="application/octet-stream", headers=headers)
