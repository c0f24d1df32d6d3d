"""Publish cohort-days with differential privacy, each once, as long as the budget lasts.

Off unless `EDGELOOP_PUBLISHING_EPSILON` says what any window of days may cost a device. A release and its cost are one
row, written in one transaction under a lock, so two requests at once cannot spend the same rest twice. Nothing is drawn
that cannot be paid for. A cohort that turned out too small is suppressed, and paid for as well: that it is small was
learnt from its data.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import numpy as np
from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from services.drift.domain.accumulator import CohortDayStatistics
from services.drift.domain.discrete_gaussian import add_noise
from services.drift.domain.privacy_ledger import Window, with_release, worst_window
from services.drift.domain.privacy_loss import Budget, epsilon_of, rho_of
from services.drift.domain.publishing import Noise, deviation_of, publish
from services.drift.evaluate import last_complete_day, newest_embedding
from services.drift.limits import DriftSettings, PublishingSettings
from services.drift.models import CohortDayRow, PublishedRow
from services.drift.opendp_noise import opendp_noise
from services.drift.schemas import PrivacyStanding, PublishDay, PublishedAnswer
from services.kit.database import try_lock
from services.kit.pages import PageRequest
from services.kit.problems import Conflict, MalformedPayload, NotFound, Unavailable


class PublishingOff(Conflict):
    """Nobody said what publishing may cost."""

    slug, title = "publishing-off", "Publishing is not turned on"


class BudgetSpent(Conflict):
    """The release would cost devices more than was promised."""

    slug, title = "privacy-budget-spent", "The privacy budget does not allow this release"


def publish_day(
    session: Session, asked: PublishDay, author: str, now: float, chosen: PublishingSettings, settings: DriftSettings
) -> tuple[PublishedRow, bool]:
    """The release of a cohort's day, and whether it was drawn now. Raises Problem."""
    total = _total(chosen)
    if not try_lock(session, "drift.publish"):
        raise Unavailable("another day is being published; try again in a few seconds")
    day = _cohort_day(session, asked, now, settings)
    kept = session.get(PublishedRow, (day.embedding_id, day.cohort, day.day))
    if kept is not None:
        return kept, False
    budget = _budget(asked)
    _afford(session, day.day, rho_of(budget), total, chosen)
    row = _drawn(day, budget, chosen)
    row.reason, row.author, row.created = asked.reason, author, now
    session.add(row)
    session.flush()
    return row, True


def standing(session: Session, chosen: PublishingSettings) -> PrivacyStanding:
    """What has been spent in the worst window, beside what may be; `epsilon` 0 while publishing is off."""
    window = worst_window(_spent(session), chosen.window_days)
    epsilon = chosen.epsilon or 0.0
    releases = session.scalar(select(func.count()).select_from(PublishedRow)) or 0
    return PrivacyStanding(
        epsilon=epsilon,
        delta=chosen.delta,
        window_days=chosen.window_days,
        spent_epsilon=_epsilon(window, chosen),
        worst_first_day=window.first,
        releases=releases,
    )


def published(session: Session, request: PageRequest) -> Sequence[PublishedRow]:
    """Up to `limit + 1` releases, newest day first."""
    key = tuple_(PublishedRow.day, PublishedRow.cohort, PublishedRow.embedding_id)
    statement = select(PublishedRow).order_by(
        PublishedRow.day.desc(), PublishedRow.cohort.desc(), PublishedRow.embedding_id.desc()
    )
    if request.after is not None:
        statement = statement.where(key < request.key(int, str, str))
    return session.scalars(statement.limit(request.limit + 1)).all()


def answer(row: PublishedRow, duplicate: bool = True) -> PublishedAnswer:
    """The row as the API shows it."""
    return PublishedAnswer(
        embedding_id=row.embedding_id,
        cohort=row.cohort,
        day=row.day,
        epsilon=row.epsilon,
        delta=row.delta,
        noise=row.noise,
        deviation=row.deviation,
        suppressed=row.devices is None,
        devices=row.devices,
        votes=row.votes,
        duplicate=duplicate,
        created=row.created,
    )


def _total(chosen: PublishingSettings) -> Budget:
    if chosen.epsilon is None:
        raise PublishingOff(
            "nothing is published until EDGELOOP_PUBLISHING_EPSILON says what any "
            f"{chosen.window_days} days may cost a device (delta is {chosen.delta:g})"
        )
    return Budget(chosen.epsilon, chosen.delta)


def _budget(asked: PublishDay) -> Budget:
    try:
        return Budget(asked.epsilon, asked.delta)
    except ValueError as error:
        raise MalformedPayload(str(error)) from error


def _cohort_day(session: Session, asked: PublishDay, now: float, settings: DriftSettings) -> CohortDayRow:
    if asked.day > last_complete_day(now, settings):
        raise Conflict(f"day {asked.day} is not complete yet; a day is drawn once, so wait until its reports are in")
    embedding_id = asked.embedding_id or newest_embedding(session)
    row = session.get(CohortDayRow, (embedding_id, asked.cohort, asked.day)) if embedding_id else None
    if row is None:
        raise NotFound(f"cohort {asked.cohort} has no report of day {asked.day} for embedding {embedding_id}")
    return row


def _spent(session: Session) -> dict[int, float]:
    """The loss of each day of which anything was published: the largest of its releases."""
    rows = session.execute(select(PublishedRow.day, func.max(PublishedRow.rho)).group_by(PublishedRow.day))
    return {int(day): float(rho) for day, rho in rows}


def _afford(session: Session, day: int, rho: float, total: Budget, chosen: PublishingSettings) -> None:
    worst = worst_window(with_release(_spent(session), day, rho), chosen.window_days, day)
    if worst.rho <= rho_of(total):
        return
    raise BudgetSpent(
        f"with it, devices that reported on all of days {worst.first} to {worst.first + chosen.window_days - 1} would "
        f"have spent epsilon {_epsilon(worst, chosen):.2f} of {total.epsilon:g} (delta {total.delta:g}); ask for a "
        "smaller epsilon, or publish a day farther away from those that were published"
    )


def _epsilon(window: Window, chosen: PublishingSettings) -> float:
    return epsilon_of(window.rho, chosen.delta) if window.rho > 0 else 0.0


def _drawn(day: CohortDayRow, budget: Budget, chosen: PublishingSettings) -> PublishedRow:
    votes = CohortDayStatistics.from_bytes(day.statistics).votes
    found = publish(votes.count, votes.shares, budget, _noise(chosen))
    return PublishedRow(
        embedding_id=day.embedding_id,
        cohort=day.cohort,
        day=day.day,
        epsilon=budget.epsilon,
        delta=budget.delta,
        rho=rho_of(budget),
        noise=chosen.noise,
        deviation=deviation_of(budget),
        devices=found.devices if found else None,
        votes=np.asarray(found.votes).tolist() if found else None,
    )


def _noise(chosen: PublishingSettings) -> Noise:
    if chosen.noise == "exact":
        return add_noise
    if importlib.util.find_spec("opendp") is None:
        raise Unavailable(
            "EDGELOOP_PUBLISHING_NOISE is opendp, which is not installed: pip install 'edgeloop[privacy]'"
        )
    return opendp_noise
