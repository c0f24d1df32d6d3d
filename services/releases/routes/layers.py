"""Layers: make one, see who holds which part."""

from typing import Annotated

from fastapi import APIRouter
from sqlalchemy import select
from sqlalchemy.orm import Session

from contracts.wire.releases import Layer, LayerClaim, LayerRequest
from services.kit.auth import Subject, requires
from services.kit.database import SessionDep
from services.kit.pages import Page, PageDep, page_of
from services.releases import layers
from services.releases.domain.slices import free_share
from services.releases.models import LayerRow

router = APIRouter(tags=["releases: layers"])
Reader = Annotated[Subject, requires("releases:read")]
Writer = Annotated[Subject, requires("releases:write")]


@router.post("/v1/layers", status_code=201)
def create_layer(request: LayerRequest, subject: Writer, session: SessionDep) -> Layer:
    """A layer: rollouts in it never share a device. The same name again changes nothing."""
    return _view(session, layers.create(session, subject, request.name))


@router.get("/v1/layers")
def list_layers(_subject: Reader, session: SessionDep, request: PageDep) -> Page[Layer]:
    """Layers by name, with the rollouts that hold a part of them."""
    query = select(LayerRow).order_by(LayerRow.name).limit(request.limit + 1)
    if request.after is not None:
        query = query.where(LayerRow.name > request.key(str)[0])
    rows = session.scalars(query).all()
    return page_of(rows, request, lambda row: _view(session, row), lambda row: (row.name,))


def _view(session: Session, row: LayerRow) -> Layer:
    held = layers.claims(session, row.name)
    return Layer(
        name=row.name,
        claims=tuple(LayerClaim(rollout=one.rollout_id, low=one.low, high=one.high) for one in held),
        free=free_share([(one.low, one.high) for one in held]),
        created=row.created,
    )
