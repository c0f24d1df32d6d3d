"""Answers of the drift API beyond `contracts.wire.drift`: more fields for people, same meaning."""

from contracts.wire.base import Answer
from contracts.wire.drift import CohortDay


class CohortDayDetail(CohortDay):
    """A cohort-day with the reason of its verdict. `p` is the tail probability behind `z`."""

    embedding_id: str
    reason: str = ""
    p: float | None = None


class EvaluationAnswer(Answer):
    """What one pass judged."""

    days: tuple[int, ...]
    alarms: tuple[str, ...]


class ObserverAnswer(Answer):
    """An observer is registered; `duplicate` when it had been before."""

    embedding_id: str
    duplicate: bool


class RejectedReason(Answer):
    """Reports counted apart for one reason, with the latest detail."""

    reason: str
    reports: int
    latest: str
