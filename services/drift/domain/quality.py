"""Did quality fall with the drift? Drift without a fall, and without a gap in training, is benign.

The quality net scores each frame in dB of expected loss, so a rise of the score is a fall of quality. The question is
asked more sharply than that for drift (1 % one-sided instead of 3.5 sigma): calling harm benign costs more than one
look too many. Too little evidence is an answer of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from services.drift.domain.reference import Reference
from services.drift.domain.scalar import welch_test
from services.drift.domain.votes import Votes


@dataclass(frozen=True)
class QualityChange:
    """`rise_db` of the expected loss against the reference, and whether that is a fall of quality."""

    rise_db: float
    fell: bool


def quality_change(votes: Votes, reference: Reference, alpha: float, least_db: float) -> QualityChange | None:
    """Compare scores by device; None when nothing can be said. A fall is significant at `alpha` and >= `least_db`."""
    test = welch_test(votes.scores, reference.votes.scores, reference.scores)
    if test is None:
        return None
    return QualityChange(test.gap, bool(test.p_rise <= alpha and test.gap >= least_db))
