"""Rollouts as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from contracts.wire.releases import Rollout, RolloutState, StageProgress
from services.kit.pages import PageRequest
from services.releases import decisions, observed, rollouts
from services.releases.models import BundleRow, RolloutRow, StageRow


def page(session: Session, request: PageRequest) -> Sequence[RolloutRow]:
    """Rollouts, newest first, one more than the page."""
    query = select(RolloutRow).order_by(RolloutRow.created.desc(), RolloutRow.id).limit(request.limit + 1)
    if request.after is not None:
        created, last_id = request.key(float, str)
        older = (RolloutRow.created < created) | ((RolloutRow.created == created) & (RolloutRow.id > last_id))
        query = query.where(older)
    return session.scalars(query).all()


def rollout(session: Session, row: RolloutRow, looks: int) -> Rollout:
    """A rollout with its stages and its newest `looks` looks."""
    version = session.scalar(select(BundleRow.release_version).where(BundleRow.digest == row.digest))
    return Rollout(
        id=row.id,
        digest=row.digest,
        release_version=version or "",
        state=RolloutState(row.state),
        stage=row.stage,
        stages=_stages(session, row),
        selector={name: tuple(values) for name, values in row.selector.items()},
        rule=row.rule,
        layer=row.layer or "",
        layer_slice=_slice(row),
        device_classes=_classes(session, row),
        created_by=row.created_by,
        approved_by=row.approved_by or "",
        verdict=row.verdict,
        cause=row.cause,
        version=row.version,
        human_actions=row.human_actions,
        metrics=tuple(decisions.intervals(decisions.looks(session, row.id, looks))),
        created=row.created,
        finished=row.finished,
    )


def _classes(session: Session, row: RolloutRow) -> tuple[str, ...]:
    key = (StageRow.rollout_id == row.id, StageRow.index == row.stage)
    return tuple(sorted(session.scalar(select(StageRow.fleet).where(*key)) or {}))


def _slice(row: RolloutRow) -> tuple[int, int] | None:
    return None if row.layer_low is None or row.layer_high is None else (row.layer_low, row.layer_high)


def _stages(session: Session, row: RolloutRow) -> tuple[StageProgress, ...]:
    planned = rollouts.stages(session, row.id)
    if not planned:
        return tuple(StageProgress(basis_points=points) for points in row.requested)
    return tuple(_stage(session, row, stage) for stage in planned)


def _stage(session: Session, row: RolloutRow, stage: StageRow) -> StageProgress:
    if stage.entered is None:
        return StageProgress(basis_points=stage.basis_points)
    found = observed.counts(session, row.id, stage.basis_points)
    return StageProgress(
        basis_points=stage.basis_points,
        entered=stage.entered,
        left=stage.left,
        targeted=sum(stage.targeted.values()),
        installed=found.installed,
        confirmed=found.confirmed,
        failed=found.failed,
        moved=found.moved,
    )
