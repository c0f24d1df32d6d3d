"""Bundles: register a gated build, upload a file, list, revoke."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Query
from sqlalchemy import select

from contracts.wire.releases import BundleRecord, BundleRegistration, Notes, OperatorAction
from services.kit.auth import Subject, requires
from services.kit.clients import ServiceClient
from services.kit.database import SessionDep
from services.kit.idempotency import IdempotencyKey, KeyReused, StillRunning, once
from services.kit.pages import Page, PageDep, page_of
from services.kit.problems import declare
from services.kit.settings import settings
from services.releases import bundles, control
from services.releases.errors import BadBundle, BuildsUnavailable, NotReleasable, UnknownBundle
from services.releases.models import BundleRow

router = APIRouter(tags=["releases: bundles"])
Reader = Annotated[Subject, requires("releases:read")]
Writer = Annotated[Subject, requires("releases:write")]


def builds_client() -> Iterator[ServiceClient]:
    """A client of the builds service for one request."""
    with ServiceClient(f"{settings().base_url}/builds", settings().service_token) as client:
        yield client


Builds = Annotated[ServiceClient, Depends(builds_client)]
REGISTER_PROBLEMS = declare(UnknownBundle, NotReleasable, BadBundle, BuildsUnavailable, KeyReused, StillRunning)


@router.post("/v1/bundles", status_code=201, responses=REGISTER_PROBLEMS)
def register_bundle(
    request: BundleRegistration,
    subject: Writer,
    session: SessionDep,
    builds: Builds,
    key: IdempotencyKey = None,
) -> BundleRecord:
    """Fetch a passed build from the builds service and sign it into the update repository."""

    def work() -> BundleRecord:
        row = bundles.register_build(session, subject, builds, request)
        return bundles.view(row)

    return once(session, subject, key, request.model_dump_json().encode(), BundleRecord, work)


@router.post("/v1/bundles/uploads", status_code=201, responses=declare(BadBundle))
def upload_bundle(
    body: Annotated[bytes, Body(media_type="application/octet-stream")],
    subject: Writer,
    session: SessionDep,
    notes: Annotated[Notes, Query()] = "",
) -> BundleRecord:
    """Register a bundle file that an operator built elsewhere; the same file again changes nothing."""
    return bundles.view(bundles.register(session, subject, body, notes))


@router.get("/v1/bundles")
def list_bundles(_subject: Reader, session: SessionDep, request: PageDep) -> Page[BundleRecord]:
    """Bundles, newest first."""
    query = select(BundleRow).order_by(BundleRow.created.desc(), BundleRow.digest).limit(request.limit + 1)
    if request.after is not None:
        created, digest = request.key(float, str)
        same = (BundleRow.created == created) & (BundleRow.digest > digest)
        query = query.where((BundleRow.created < created) | same)
    rows = session.scalars(query).all()
    return page_of(rows, request, bundles.view, lambda row: (row.created, row.digest))


@router.get("/v1/bundles/{digest}", responses=declare(UnknownBundle))
def get_bundle(digest: str, _subject: Reader, session: SessionDep) -> BundleRecord:
    """One bundle."""
    return bundles.view(bundles.find(session, digest))


@router.post("/v1/bundles/{digest}/revoke", responses=declare(UnknownBundle, NotReleasable))
def revoke_bundle(digest: str, action: OperatorAction, subject: Writer, session: SessionDep) -> BundleRecord:
    """Forbid a bundle on every device; its rollouts end as killed."""
    return bundles.view(control.revoke(session, subject, digest, action.reason))
