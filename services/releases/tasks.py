"""Background work of releases: the rollouts' tick, and keeping signed documents fresh and in the cache.

All are idempotent: a tick that comes twice decides the same, a renewal that is not due does nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import delete

from services.kit.database import transaction, try_lock
from services.kit.tasks import beat, task
from services.releases import counts, production, service, state_document, state_keys, ticks
from services.releases.limits import DEVICE, STATE
from services.releases.models import FeedbackItem


@beat("releases.tick", seconds=2)
@task(queue="releases", time_limit=60)
def tick() -> None:
    """Judge every rollout in progress and take the step that its evidence allows."""
    ticks.tick_all()


@beat("releases.renew", seconds=60)
@task(queue="releases", time_limit=60)
def renew() -> None:
    """Create the repository and the state document on first start; sign again what is half-way to its expiry."""
    with transaction() as session:
        if try_lock(session, "releases.renew"):
            service.writable_repository(session).refresh()
            state_keys.settle(session)
            state_document.renew_if_aged(session)


@beat("releases.cache", seconds=STATE.refresh_s)
@task(queue="releases", time_limit=60)
def refresh() -> None:
    """Keep the state document in the cache, so that polls never come to the database for it."""
    with transaction() as session:
        state_document.refresh_cache(session)


@beat("releases.fold", seconds=5)
@task(queue="releases", time_limit=60)
def fold() -> None:
    """Fold the counts of devices and exposures, so that reading them stays short."""
    with transaction() as session:
        if try_lock(session, "releases.fold"):
            counts.fold(session)


@beat("releases.forget", seconds=3600)
@task(queue="releases", time_limit=60)
def forget() -> None:
    """Drop the natural keys of reports that no device will repeat any more."""
    oldest = datetime.now(UTC) - timedelta(days=DEVICE.item_days)
    with transaction() as session:
        session.execute(delete(FeedbackItem).where(FeedbackItem.received_at < oldest))


TOPICS = (production.TOPIC,)
"""Outbox topics that this worker delivers."""
