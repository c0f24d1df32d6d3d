"""Runs: ask for a clustering, do it, keep the last ones.

Asking is idempotent: a run that waits answers everyone who asks. Doing reads the window, plans in memory
and writes everything in one transaction, so a run is either done or as if it had never begun.

Between two full runs, at most `rebuild_days` apart, a run adds the new segments to what the last one left; its window
begins where that of the full run began. Labels are those of clustering all anew.
"""

from __future__ import annotations

import secrets

import structlog
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from contracts.clock import hour_of
from services.curation import store, window
from services.curation.domain.dbscan import NotClustered
from services.curation.domain.known import holds
from services.curation.domain.plan import Plan, make_plan
from services.curation.executors import NoExecutor, means
from services.curation.limits import LIMITS, CurationSettings
from services.curation.models import Run, Segment
from services.curation.training import cover_newest
from services.curation.writing import forget_run, write_plan

REQUESTED, DONE, FAILED = "requested", "done", "failed"

log = structlog.get_logger(__name__)


def request_run(session: Session, now: float) -> Run:
    """Return the run that waits to be done, a new one where none does."""
    waiting = session.scalar(select(Run).where(Run.state == REQUESTED).order_by(Run.requested).limit(1))
    if waiting is not None:
        return waiting
    run = Run(
        id=secrets.token_hex(8),
        state=REQUESTED,
        requested=now,
        created=None,
        embedding_id=None,
        segments=0,
        distinct_segments=0,
        clusters=0,
        split=0,
        noise=0,
        kept=0,
        eps=0.0,
        eps_source="",
        guarded=[],
        other_embeddings=0,
        error="",
        recall=1.0,
        digest="",
        known="",
        inserted=0,
        dropped=0,
        min_samples=0,
        first_hour=0,
    )
    session.add(run)
    session.flush()
    return run


def run_is_due(session: Session, now: float, settings: CurationSettings) -> bool:
    """Whether the periodic run should happen: segments exist and the last run is a period old."""
    last = session.scalar(select(func.max(Run.requested)))
    if last is not None and now - last < settings.run_every_hours * 3600:
        return False
    return session.scalar(select(Segment.segment_id).limit(1)) is not None


def next_requested(session: Session) -> Run | None:
    """Return, locked, the oldest run that waits."""
    statement = select(Run).where(Run.state == REQUESTED).order_by(Run.requested).limit(1)
    return session.scalar(statement.with_for_update(skip_locked=True))


def do_run(session: Session, run: Run, now: float, settings: CurationSettings) -> None:
    """Cluster the window and write clusters, members and coverage. A window that is too large, or
    labels that fail their audit, fail the run.
    """
    own_hour = hour_of(now) - 24 * settings.window_days
    run.embedding_id = window.newest_embedding(session, own_hour)
    earlier = _earlier(session, run, now, settings)
    run.first_hour = earlier.first_hour if earlier else own_hour
    segments = window.read_window(session, run.embedding_id, run.first_hour)
    known = store.recall_known(earlier.id, earlier.known) if earlier else None
    if earlier is not None and (known is None or not holds(segments.ids, known)):
        earlier, known, run.first_hour = None, None, own_hour
        segments = window.read_window(session, run.embedding_id, own_hour)
    run.created, run.segments, run.min_samples = now, len(segments.ids), settings.min_samples
    run.other_embeddings = window.count_others(session, run.first_hour, run.embedding_id)
    try:
        with means(settings, LIMITS.direct_points) as chosen:
            plan = make_plan(segments, settings, LIMITS.distinct_points, LIMITS.epsilon_sample, known, chosen)
    except (NotClustered, NoExecutor) as error:
        run.state, run.error = FAILED, str(error)
        return
    run.base_run = (earlier.base_run or earlier.id) if earlier else None
    log.info("curation_recall", run_id=run.id, recall=plan.recall, distinct=plan.distinct, inserted=plan.inserted)
    write_plan(session, run, segments, plan)
    run.state = DONE
    session.flush()
    _leave(session, run, plan)
    cover_newest(session, run, settings)
    _forget_old(session, run)


def latest_done(session: Session) -> Run | None:
    """Return the newest finished run."""
    return session.scalar(select(Run).where(Run.state == DONE).order_by(Run.created.desc()).limit(1))


def _earlier(session: Session, run: Run, now: float, settings: CurationSettings) -> Run | None:
    """The run that this one may add to: it left something, of this embedding, and would choose the same clusters."""
    last = latest_done(session)
    if last is None or not last.known or last.embedding_id != run.embedding_id:
        return None
    base = last if last.base_run is None else session.get(Run, last.base_run)
    if base is None or base.created is None or now - base.created >= settings.rebuild_days * 86_400:
        return None
    same_eps = base.eps_source != "settings" if settings.eps is None else last.eps == settings.eps
    return last if same_eps and last.min_samples == settings.min_samples else None


def _leave(session: Session, run: Run, plan: Plan) -> None:
    """Keep what the next run may build on, and forget what the runs before left."""
    run.known = store.keep(run.id, plan.known) if plan.known else ""
    for old in session.scalars(select(Run).where(Run.known != "", Run.id != run.id)):
        store.forget(old.id)
        old.known = ""


def _forget_old(session: Session, newest: Run) -> None:
    """Forget the oldest runs where there are too many, or too many members; never the newest and its full run."""
    ended = session.scalars(select(Run).where(Run.state != REQUESTED).order_by(Run.created.desc())).all()
    members = 0
    for place, run in enumerate(sorted(ended, key=lambda one: one.id != newest.id)):
        members += run.segments - run.noise if run.state == DONE else 0
        if run.id in (newest.id, newest.base_run):
            continue
        if place >= LIMITS.runs_kept or members > LIMITS.members_kept:
            forget_run(session, run.id)
