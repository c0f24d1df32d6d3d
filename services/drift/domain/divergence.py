"""Has the shape moved? Jensen-Shannon divergence in nats on fixed bins, without its small-sample bias.

Unit and bins are part of the number: 0.12 nats on 16 bins is a mean shift of 1.06 sd; in bits or as a
distance the same 0.12 would mean 0.86 or 0.35 sd. Two samples of one law have a positive divergence on
average; its expectation follows from how much devices differ in each bin and is taken off.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.drift.domain.votes import Votes

Array = NDArray[np.float64]


def jensen_shannon(p: Array, q: Array) -> Array:
    """Return the divergence in nats (0 .. ln 2) along the last axis of two arrays of shares."""
    middle = 0.5 * (p + q)
    return 0.5 * (_relative_entropy(p, middle) + _relative_entropy(q, middle))


def debiased_divergence(current: Votes, reference: Votes) -> float:
    """Return the largest of the 8 directions' divergences between device votes, each less its null mean; >=
    0.

    To second order JS = sum (p - q)^2 / (8 m) with m the middle, so its mean under equal laws is the
    variance of p - q over 8 m. For independent frames this is the textbook (bins - 1) (1/n1 + 1/n2) / 8.
    """
    raw = jensen_shannon(current.shares, reference.shares)
    noise = current.share_variance / current.count + reference.share_variance / reference.count
    middle = 0.5 * (current.shares + reference.shares)
    null = np.where(middle > 0, noise / np.where(middle > 0, middle, 1.0), 0.0).sum(axis=-1) / 8.0
    return float(np.max(np.maximum(raw - null, 0.0)))


def _relative_entropy(p: Array, q: Array) -> Array:
    safe_p, safe_q = np.where(p > 0, p, 1.0), np.where(q > 0, q, 1.0)
    return np.asarray(np.where(p > 0, p * np.log(safe_p / safe_q), 0.0).sum(axis=-1))
