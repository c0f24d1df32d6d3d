"""What devices call: enrolment, the state document, feedback, the update repository.

Enrolment and metadata are public: the one carries its own token, the others their own signatures. Targets need a
device's token, so that a model is not handed to passers-by.
"""

import asyncio
from collections.abc import Callable
from typing import Annotated

import structlog
from anyio import to_thread
from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from contracts.wire.enrolment import EnrolmentRequest, EnrolmentResponse
from contracts.wire.feedback import FeedbackBatch
from contracts.wire.telemetry import Accepted
from services.kit.admission import polls_aside
from services.kit.auth import Subject, requires
from services.kit.database import SessionDep, transaction
from services.kit.known_tokens import polls
from services.kit.problems import Forbidden, NotFound, TooManyRequests, Unauthorized, declare
from services.kit.ratelimit import Rate, TokenBucket
from services.kit.storage import ObjectMissing
from services.releases import enrolment, feedback, service, state_document
from services.releases.errors import EnrolmentRefused
from services.releases.limits import DEVICE, STATE
from services.releases.seen import LastSeen
from services.releases.takings import Takings

log = structlog.get_logger(__name__)
router = APIRouter(tags=["releases: devices"])
SEEN = LastSeen()
TAKINGS = Takings()
STATE_CACHE = state_document.StateCache()
ENROLMENTS = TokenBucket("enrolments", Rate(DEVICE.enrolments_per_second, DEVICE.enrolment_burst))
ASIDE: set[asyncio.Future[object]] = set()
Updates = Annotated[Subject, requires("updates:read")]
Polls = Annotated[Subject, polls("updates:read")]
IfNoneMatch = Annotated[str | None, Header(max_length=200)]


@router.post("/v1/enrolments", status_code=201, responses=declare(EnrolmentRefused, TooManyRequests))
def enrol_device(request: EnrolmentRequest, session: SessionDep) -> EnrolmentResponse:
    """Exchange an enrolment token and a public key for an identity and the roots of trust."""
    ENROLMENTS.take("all")
    return enrolment.enrol(session, request)


@router.get("/v1/state", response_class=Response, responses={200: {"content": {"application/json": {}}}, 304: {}})
async def get_state_document(subject: Polls, if_none_match: IfNoneMatch = None) -> Response:
    """The signed device state document; 304 while it did not change. A known device's poll does no I/O at all."""
    if subject.kind == "device" and SEEN.touch(subject.id, service.clock().now()):
        _aside(SEEN.flush)
    served = STATE_CACHE.held()
    if served is None:
        served = await to_thread.run_sync(STATE_CACHE.get, _load_state, limiter=polls_aside())
    elif STATE_CACHE.must_renew():
        _aside(STATE_CACHE.get, _load_state)
    headers = {"ETag": served.etag, "Cache-Control": f"public, max-age={STATE.ttl_s}"}
    if if_none_match is not None and served.etag in [tag.strip() for tag in if_none_match.split(",")]:
        return Response(status_code=304, headers=headers)
    return Response(served.document, media_type="application/json", headers=headers)


def _load_state() -> state_document.Served:
    with transaction() as session:
        return state_document.latest(session) or state_document.publish(session)


def _aside(work: Callable[..., object], *given: object) -> None:
    """Do it in a thread, beside the answer; kept in hand so that it is not collected halfway."""
    task = asyncio.ensure_future(to_thread.run_sync(work, *given, limiter=polls_aside()))
    ASIDE.add(task)
    task.add_done_callback(_finished)


def _finished(task: asyncio.Future[object]) -> None:
    ASIDE.discard(task)
    if not task.cancelled() and task.exception() is not None:
        log.warning("poll_aside_failed", exc_info=task.exception())


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
def get_update_target(path: str, subject: Updates, _request: Request) -> FileResponse:
    """The bytes of a target, whole or by range; the client checks them against the signed metadata."""
    try:
        file = service.objects().path(f"tuf/targets/{path}")
    except (ObjectMissing, ValueError) as error:
        raise NotFound(f"the repository has no target {path[:200]!r}") from error
    headers = {"Cache-Control": "private, max-age=86400, immutable"}
    noted = BackgroundTask(TAKINGS.note, subject.id, path) if subject.kind == "device" else None
    return FileResponse(file, media_type="application/octet-stream", headers=headers, background=noted)
