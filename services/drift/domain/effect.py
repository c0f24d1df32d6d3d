"""How large is the shift, whatever the number of devices: D in reference standard deviations.

The observer's projection whitens healthy frames, so the length of a difference of means counts in standard
deviations of one frame. Chance alone makes the length of a difference of two means positive; its expected
square is taken off, so that D of an unchanged small cohort is about zero and not 0.9.
"""

from __future__ import annotations

import numpy as np

from services.drift.domain.reference import Spread
from services.drift.domain.votes import Votes


def effect_size(current: Votes, reference: Votes, spread: Spread) -> float:
    """Return the bias-corrected D of the cohort mean, at least 0."""
    gap = current.mean - reference.mean
    chance = float(np.trace(spread.covariance)) * (1.0 / current.count + 1.0 / reference.count)
    return float(np.sqrt(max(float(gap @ gap) - chance, 0.0)))
