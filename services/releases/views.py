"""Rollouts as the API shows them: any number of them for the same few queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from contracts.wire.releases import Rollout, RolloutState, StageProgress
from services.kit.pages import PageRequest
from services.releases import counts, decisions
from services.releases.counts import Progress
from services.releases.decisions import Seen
from services.releases.models import BundleRow, RolloutRow, StageRow

Listed = tuple[RolloutRow, str]
"""A rollout and the version of its bundle."""


@dataclass(frozen=True)
class Told:
    """What is told of a rollout beyond its row."""

    version: str
    stages: Sequence[StageRow]
    progress: Progress
    looks: Sequence[Seen]


def page(session: Session, request: PageRequest, digest: str = "") -> Sequence[Listed]:
    """Rollouts with their versions, newest first, one more than the page; with `digest` those of one bundle."""
    query = (
        select(RolloutRow, BundleRow.release_version)
        .join(BundleRow, BundleRow.digest == RolloutRow.digest)
        .order_by(RolloutRow.created.desc(), RolloutRow.id)
        .limit(request.limit + 1)
    )
    if digest:
        query = query.where(RolloutRow.digest == digest)
    if request.after is not None:
        created, last_id = request.key(float, str)
        older = (RolloutRow.created < created) | ((RolloutRow.created == created) & (RolloutRow.id > last_id))
        query = query.where(RolloutRow.created <= created, older)
    return [(row, version) for row, version in session.execute(query)]


def rollout(session: Session, row: RolloutRow, looks: int) -> Rollout:
    """A rollout with its stages and its newest `looks` looks."""
    version = session.scalar(select(BundleRow.release_version).where(BundleRow.digest == row.digest))
    return rollouts(session, [(row, version or "")], looks)[0]


def rollouts(session: Session, rows: Sequence[Listed], looks: int) -> list[Rollout]:
    """Rollouts with their stages and the newest `looks` looks of each."""
    ids = [row.id for row, _ in rows]
    stages = _stages(session, ids)
    seen = decisions.newest(session, ids, looks) if looks else {}
    progress = counts.progress(session, [one for one in ids if one in stages])
    nobody = Progress({})
    return [
        _view(
            row,
            Told(
                version,
                stages.get(row.id, ()),
                progress.get(row.id, nobody),
                seen.get(row.id, ()),
            ),
        )
        for row, version in rows
    ]


def _view(row: RolloutRow, told: Told) -> Rollout:
    return Rollout(
        id=row.id,
        digest=row.digest,
        release_version=told.version,
        state=RolloutState(row.state),
        stage=row.stage,
        stages=_progress(row, told),
        selector={name: tuple(values) for name, values in row.selector.items()},
        rule=row.rule,
        layer=row.layer or "",
        layer_slice=_slice(row),
        device_classes=tuple(sorted(told.stages[row.stage].fleet)) if row.stage < len(told.stages) else (),
        created_by=row.created_by,
        approved_by=row.approved_by or "",
        verdict=row.verdict,
        cause=row.cause,
        version=row.version,
        human_actions=row.human_actions,
        metrics=tuple(decisions.intervals(told.looks)),
        created=row.created,
        finished=row.finished,
    )


def _stages(session: Session, ids: Sequence[str]) -> dict[str, list[StageRow]]:
    found: dict[str, list[StageRow]] = defaultdict(list)
    if ids:
        query = select(StageRow).where(StageRow.rollout_id.in_(ids)).order_by(StageRow.rollout_id, StageRow.index)
        for stage in session.scalars(query):
            found[stage.rollout_id].append(stage)
    return dict(found)


def _slice(row: RolloutRow) -> tuple[int, int] | None:
    return None if row.layer_low is None or row.layer_high is None else (row.layer_low, row.layer_high)


def _progress(row: RolloutRow, told: Told) -> tuple[StageProgress, ...]:
    if not told.stages:
        return tuple(StageProgress(basis_points=points) for points in row.requested)
    return tuple(_stage(stage, told.progress) for stage in told.stages)


def _stage(stage: StageRow, progress: Progress) -> StageProgress:
    if stage.entered is None:
        return StageProgress(basis_points=stage.basis_points)
    found = progress.up_to(stage.basis_points)
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
