"""What tasks and routes do with drift, each in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from services.drift import evaluate, ingest
from services.drift.limits import DriftSettings
from services.kit.database import transaction, try_lock


@dataclass(frozen=True)
class EvaluationRun:
    """What one pass judged: (embedding id, day) pairs and ids of new alarms."""

    days: tuple[tuple[str, int], ...]
    alarms: tuple[str, ...]


def take_reports(payloads: Sequence[bytes], now: float) -> None:
    """Store reports from the stream, all or none."""
    with transaction() as session:
        ingest.take_many(session, payloads, now)


def fold_waiting() -> int:
    """Fold all waiting reports, batch by batch; returns how many. Does nothing while another task folds."""
    total = 0
    while True:
        with transaction() as session:
            folded = ingest.fold(session) if try_lock(session, "drift.fold") else 0
        if not folded:
            return total
        total += folded


def evaluate_pending(session: Session, now: float, settings: DriftSettings) -> EvaluationRun:
    """Judge every complete day that changed. Does nothing while another task judges."""
    if not try_lock(session, "drift.evaluate"):
        return EvaluationRun((), ())
    days = evaluate.pending_days(session, now, settings)
    raised = [evaluate.evaluate_day(session, embedding, day, now, settings) for embedding, day in days]
    return EvaluationRun(tuple(days), tuple(alarm for alarm in raised if alarm is not None))
