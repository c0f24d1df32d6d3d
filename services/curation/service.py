"""What tasks and routes do with curation, each in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from contracts.wire.curation import TrainingVectorBatch
from services.curation import evaluation, ingest, runs, training
from services.curation.limits import CurationSettings
from services.curation.models import TrainingSet
from services.kit.database import transaction, try_lock


@dataclass(frozen=True)
class PostedTraining:
    """A stored training set, whether it is new, and how many of its vectors lie near other evaluation clips."""

    stored: TrainingSet
    new: bool
    near_others: int


def take_segment(body: bytes, now: float) -> None:
    """Store one segment."""
    take_segments([body], now)


def take_segments(bodies: Sequence[bytes], now: float) -> None:
    """Store segments from the stream, all or none."""
    with transaction() as session:
        for body in bodies:
            ingest.take(session, body, now)


def run_next(now: float, settings: CurationSettings) -> str | None:
    """Do one waiting or due run; returns its id. Does nothing while another task does one."""
    with transaction() as session:
        if not try_lock(session, "curation.run"):
            return None
        run = runs.next_requested(session)
        if run is None and runs.run_is_due(session, now, settings):
            run = runs.request_run(session, now)
        if run is None:
            training.cover_newest(session, runs.latest_done(session), settings)
            return None
        runs.do_run(session, run, now, settings)
        return run.id


def post_training_set(
    session: Session, batch: TrainingVectorBatch, now: float, settings: CurationSettings
) -> PostedTraining:
    """Store a training set that holds no evaluation clip, and compute what it covers of the newest run."""
    last = runs.latest_done(session)
    found = evaluation.check_training(session, batch, last, settings)
    new = training.add_training_set(session, batch, now, settings)
    training.cover_newest(session, last, settings)
    return PostedTraining(session.get_one(TrainingSet, batch.revision), new, found.near_others)
