"""One number a device: count, mean and squared deviations, mergeable in any order (Chan's update).

Invariant: merging is associative and commutative up to rounding of float64; an empty tally changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIZE = 3
"""Numbers in the flat form of a `Tally`."""


@dataclass(frozen=True)
class Tally:
    """`count` numbers, their `mean`, and the sum of their squared deviations from it."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Tally:
        """Return the tally of a one-dimensional array; of an empty one, the empty tally."""
        if not len(values):
            return cls()
        mean = float(values.mean())
        return cls(len(values), mean, float(np.square(values - mean).sum()))

    def merge(self, other: Tally) -> Tally:
        """Return the tally of both."""
        total = self.count + other.count
        if total == 0:
            return self
        share = other.count / total
        step = other.mean - self.mean
        return Tally(
            count=total,
            mean=self.mean + step * share,
            squares=self.squares + other.squares + step * step * self.count * share,
        )

    def flat(self) -> NDArray[np.float64]:
        """Return the three numbers."""
        return np.array([float(self.count), self.mean, self.squares])

    @classmethod
    def from_flat(cls, numbers: NDArray[np.float64]) -> Tally:
        """Inverse of `flat`."""
        return cls(int(numbers[0]), float(numbers[1]), float(numbers[2]))
