"""Layers: rollouts that must not share a device each hold a slice of the same layer.

A layer has one salt for its life, so a device keeps its place in it; the rollouts' own salts place it anew for each
stage. Invariants: slices of rollouts in progress and of completed ones that still hold never overlap; a slice is given
under the layer's lock, at the start, and free again when its rollout ends.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from contracts.state import BUCKETS
from services.kit.audit import record
from services.kit.auth import Subject
from services.releases import service
from services.releases.domain.machine import ACTIVE
from services.releases.domain.slices import first_gap, free_share
from services.releases.errors import LayerFull, UnknownLayer
from services.releases.models import LayerRow, RolloutRow


@dataclass(frozen=True)
class Claim:
    """A slice and the rollout that holds it."""

    rollout_id: str
    low: int
    high: int


def create(session: Session, subject: Subject, name: str) -> LayerRow:
    """A layer with a salt of its own; the same name again is the same layer."""
    session.execute(text("SELECT pg_advisory_xact_lock(hashtext(:key))"), {"key": f"releases.layer:{name}"})
    known = session.get(LayerRow, name)
    if known is not None:
        return known
    row = LayerRow(name=name, salt=secrets.token_hex(8), created_by=str(subject), created=service.clock().now())
    session.add(row)
    session.flush()
    record(session, subject, "layer.created", f"layer:{name}")
    return row


def find(session: Session, name: str | None) -> LayerRow | None:
    """The layer of that name, None for no name. Raises UnknownLayer."""
    if not name:
        return None
    row = session.get(LayerRow, name)
    if row is None:
        raise UnknownLayer(f"there is no layer {name[:64]!r}; make it with `edgeloop release layers --add {name[:64]}`")
    return row


def claims(session: Session, name: str, but: str = "") -> list[Claim]:
    """The slices that are held, in order; `but` leaves one rollout out."""
    held = RolloutRow.state.in_(ACTIVE) | RolloutRow.standing
    condition = (RolloutRow.layer == name, RolloutRow.layer_high.is_not(None), RolloutRow.id != but, held)
    query = select(RolloutRow.id, RolloutRow.layer_low, RolloutRow.layer_high).where(*condition)
    rows = session.execute(query.order_by(RolloutRow.layer_low)).all()
    return [Claim(one, low or 0, high or BUCKETS) for one, low, high in rows]


def take_slice(session: Session, row: RolloutRow) -> None:
    """Give a rollout that starts its part of the layer. Raises LayerFull."""
    if not row.layer:
        return
    session.execute(text("SELECT pg_advisory_xact_lock(hashtext(:key))"), {"key": f"releases.layer:{row.layer}"})
    row.layer_low, row.layer_high = prospect(session, row.layer, row.layer_share, row.selector_key)
    session.flush()


def prospect(session: Session, name: str, share: int, selector_key: str) -> tuple[int, int]:
    """The slice that a start would get: that of a completed rollout for the same devices, else a free one.

    Raises LayerFull.
    """
    standing = (RolloutRow.standing, RolloutRow.selector_key == selector_key, RolloutRow.layer_high.is_not(None))
    known = session.execute(select(RolloutRow.layer_low, RolloutRow.layer_high).where(*standing)).first()
    if known is not None:
        return known.layer_low or 0, known.layer_high or BUCKETS
    return room(name, share, claims(session, name, but=_superseded(session, selector_key)))


def _superseded(session: Session, selector_key: str) -> str:
    condition = (RolloutRow.selector_key == selector_key, RolloutRow.state.in_(ACTIVE))
    return session.scalars(select(RolloutRow.id).where(*condition).limit(1)).first() or ""


def room(name: str, share: int, held: Sequence[Claim]) -> tuple[int, int]:
    """The first free part of that size. Raises LayerFull."""
    taken = [(one.low, one.high) for one in held]
    low = first_gap(taken, share)
    if low is None:
        holders = ", ".join(f"{one.rollout_id} holds {one.low}-{one.high}" for one in held)
        free = free_share(taken)
        raise LayerFull(
            f"layer {name} has {free} of {BUCKETS} buckets free, none of {share} in a row ({holders}); "
            "ask for less, or end one of these rollouts"
        )
    return low, low + share
