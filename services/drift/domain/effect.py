"""How large is the shift, whatever the number of devices: D in reference standard deviations.

The observer's projection whitens healthy frames, so the length of a difference of means counts in standard
deviations of one frame. Chance alone makes the length of a difference of two means positive; its expected
square is taken off, so that D of an unchanged small cohort is about zero and not 0.9.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def effect_size(gap: Array, covariance: Array) -> float:
    """Return the bias-corrected D of a gap between means, at least 0; `covariance` is that of the gap."""
    return float(np.sqrt(max(float(gap @ gap) - float(np.trace(covariance)), 0.0)))
