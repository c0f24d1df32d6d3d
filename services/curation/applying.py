"""Apply a plan: the segments that it does not keep leave when the window has passed them.

Refused, in this order: a run that is not done; a digest that is not the plan's, or a plan that is not what its digest
says; a plan that a newer run or time has overtaken; one that would wipe out a device class or a version of the model
by the settings of now. Applying again changes nothing. Until the window has passed, a dropped segment still counts
in clusters, so applying a plan changes no label; a later plan may keep it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import ARRAY, ColumnElement, Text, any_, func, literal, select, tuple_, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from services.curation.domain.digest import plan_digest
from services.curation.limits import LIMITS, CurationSettings
from services.curation.models import ClusterRow, Member, Run, Segment
from services.curation.runs import DONE, latest_done
from services.kit.problems import Conflict


class PlanNotReady(Conflict):
    slug, title = "plan-not-ready", "The run has no plan"


class PlanMismatch(Conflict):
    slug, title = "plan-mismatch", "The digest is not that of the plan"


class PlanStale(Conflict):
    slug, title = "plan-stale", "The plan has been overtaken"


class WouldWipeOut(Conflict):
    slug, title = "would-wipe-out", "The plan would drop nearly all of a source"


def apply_plan(session: Session, run: Run, digest: str, now: float, settings: CurationSettings) -> bool:
    """Let go of what the plan does not keep; False when it had been applied before. Raises one of the above."""
    session.refresh(run, with_for_update=True)
    if run.state != DONE:
        raise PlanNotReady(f"run {run.id} is {run.state}; wait until it is done, or plan again")
    if digest != run.digest:
        raise PlanMismatch(f"run {run.id} has another digest than {digest[:12]}; read its plan again")
    if run.applied is not None:
        return False
    _refuse_stale(session, run, now, settings)
    members = list(_members(session, run.id))
    if plan_digest(members) != run.digest:
        raise PlanMismatch(f"the stored plan of run {run.id} is not what its digest says; plan again")
    for ids in _pages([name for name, _, kept in members if not kept]):
        these = Segment.segment_id == any_(literal(ids, ARRAY(Text)))
        session.execute(update(Segment).where(these).values(dropped_by=run.id))
    session.execute(update(Segment).where(_in_window(run), Segment.dropped_by != run.id).values(dropped_by=None))
    _refuse_wipe_out(session, run, settings)
    dropped = select(func.count()).select_from(Segment).where(Segment.dropped_by == run.id)
    run.dropped, run.applied = session.scalar(dropped) or 0, now
    session.flush()
    return True


def _refuse_stale(session: Session, run: Run, now: float, settings: CurationSettings) -> None:
    newest = latest_done(session)
    if newest is not None and newest.id != run.id:
        raise PlanStale(f"run {newest.id} is newer than {run.id}; read its plan and apply that")
    age = (now - (run.created or now)) / 3600
    if age > settings.plan_hours:
        raise PlanStale(f"the plan of run {run.id} is {age:.1f} h old, at most {settings.plan_hours:g}; plan again")


def _refuse_wipe_out(session: Session, run: Run, settings: CurationSettings) -> None:
    for source in (Segment.device_class, Segment.model_version):
        for name, count, dropped in _shares(session, run, source):
            if dropped > settings.most_dropped * count + 1e-9:
                raise WouldWipeOut(
                    f"of {count} segments of {name} the plan of run {run.id} would drop {dropped}, at most "
                    f"{settings.most_dropped:.0%} may go; nothing was changed, plan again"
                )


def _shares(session: Session, run: Run, source: InstrumentedAttribute[str]) -> Sequence[tuple[str, int, int]]:
    dropped = func.count().filter(Segment.dropped_by == run.id)
    rows = session.execute(
        select(source, func.count(), dropped).where(_in_window(run)).group_by(source).order_by(source)
    )
    return [(name, count, gone) for name, count, gone in rows]


def _in_window(run: Run) -> ColumnElement[bool]:
    return (Segment.embedding_id == run.embedding_id) & (Segment.hour >= run.first_hour)


def _members(session: Session, run_id: str) -> Iterator[tuple[str, int, bool]]:
    """(segment, label, kept) of a run, some at a time."""
    key = tuple_(Member.cluster_id, Member.rank)
    wanted = select(Member.cluster_id, Member.rank, Member.segment_id, ClusterRow.label, Member.kept)
    wanted = wanted.join(ClusterRow, ClusterRow.id == Member.cluster_id).where(ClusterRow.run_id == run_id)
    wanted = wanted.order_by(Member.cluster_id, Member.rank).limit(LIMITS.rows)
    after: tuple[str, int] | None = None
    while rows := session.execute(wanted if after is None else wanted.where(key > after)).all():
        yield from ((row[2], row[3], row[4]) for row in rows)
        after = (rows[-1][0], rows[-1][1])


def _pages(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[first : first + LIMITS.rows] for first in range(0, len(ids), LIMITS.rows))
