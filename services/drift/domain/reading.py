"""How a report is read: its projected mean, and its energy outside the subspace.

A report carries neither. The projection is linear, so the projected mean is the projected mean vector. The energy
outside the subspace is what the 256 dimensions hold in all (variance plus squared mean) less what the span of the
28 rows holds of it: with W the projection, C the projected covariance and m the projected mean, that part is
trace((W W')^-1 (C + m m')), because W'(W W')^-1 W is the orthogonal projector on the span.

Invariant: a shift or a change of spread that the 28 directions cannot see changes the energy outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Array = NDArray[np.float64]

SMALLEST_ENERGY = 0.5
"""Squared reference units. A healthy frame holds about 256 in all, coded in steps of 6 % a dimension: the sum is known
to about 0.3, so less than this outside is rounding, and its logarithm would be noise."""


@dataclass(frozen=True)
class Reading:
    """A projection (28 x 256) ready for use, and the inverse of its rows' Gram matrix (28 x 28)."""

    projection: Array
    metric: Array

    @classmethod
    def of(cls, projection: NDArray[np.float32]) -> Reading:
        """Prepare an observer's projection; rows that depend on each other are taken as one."""
        rows = projection.astype(np.float64)
        return cls(rows, np.asarray(linalg.pinvh(rows @ rows.T)))

    def projected(self, means: Array) -> Array:
        """Return the projected means (n x 28) of mean vectors (n x 256)."""
        return np.asarray(means @ self.projection.T)

    def log_residuals(self, means: Array, variances: Array, projected: Array, covariances: Array) -> Array:
        """Return ln(energy outside the subspace) of n devices, in squared reference units.

        `means` and `variances` are n x 256, `projected` n x 28, `covariances` n x 28 x 28.
        """
        everything = (variances + np.square(means)).sum(axis=1)
        inside = np.tensordot(covariances, self.metric, axes=((1, 2), (0, 1)))
        inside = inside + ((projected @ self.metric) * projected).sum(axis=1)
        return np.asarray(np.log(np.maximum(everything - inside, SMALLEST_ENERGY)))
