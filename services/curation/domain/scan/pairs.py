"""Which of some rows lie within eps of the points of a block.

Leading coordinates in float32 first: they can only shorten a distance, so pairs beyond eps (and rounding) are out.
Few left: each is decided in float64 on the given vectors. Many left: all coordinates in float32, and only pairs
within rounding of eps are decided in float64. Either way the outcome is that of float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import local

import numpy as np

from services.curation.domain.scan.frame import Floats, Mask, Places, rounding
from services.curation.domain.scan.layout import Layout
from services.curation.domain.scan.limits import ScanLimits


@dataclass(frozen=True)
class Pairs:
    """Near pairs one by one: places `left[i]` and `right[i]`."""

    left: Places
    right: Places


@dataclass(frozen=True)
class Patch:
    """Many near pairs: `near[i, j]` of places `rows[i]` and `columns[j]`."""

    rows: Places
    columns: Places
    near: Mask


class _Scratch(local):
    """Memory of one thread that every comparison reuses; fresh memory would cost more than the comparison."""

    def __init__(self, most_rows: int, most_columns: int, width: int) -> None:
        self.left = np.empty((most_rows, width), dtype=np.float32)
        self.closeness = np.empty(most_rows * most_columns, dtype=np.float32)
        self.possible = np.empty(most_rows * most_columns, dtype=np.bool_)


class PairTest:
    """Compares rows with columns of one layout."""

    def __init__(self, layout: Layout, vectors: Floats, eps: float, limits: ScanLimits) -> None:
        self._layout, self._vectors, self._limits = layout, vectors, limits
        self._square = eps * eps
        self._least = -0.5 * (eps * layout.frame.scale) ** 2
        width = layout.short.shape[1]
        self._bound = np.float32(self._least - rounding(width - 2))
        self._scratch = _Scratch(max(limits.chunk, limits.block), limits.block, width)

    def within(self, places: Places) -> Iterator[Pairs | Patch]:
        """Near pairs among some places, each once."""
        once = np.tri(len(places), k=-1, dtype=np.bool_)
        yield from self._compare(places, places, self._right(places), once)

    def between(self, rows: Places, columns: Places) -> Iterator[Pairs | Patch]:
        """Near pairs of a row and a column; the two have no place in common."""
        if len(rows) == 0 or len(columns) == 0:
            return
        right = self._right(columns)
        for first in range(0, len(rows), self._limits.chunk):
            yield from self._compare(rows[first : first + self._limits.chunk], columns, right, None)

    def _right(self, columns: Places) -> Floats:
        """Columns as factors: the two last entries of a short row swapped."""
        right = self._layout.short[columns]
        right[:, [-2, -1]] = right[:, [-1, -2]]
        return np.ascontiguousarray(right.T)

    def _compare(self, rows: Places, columns: Places, right: Floats, only: Mask | None) -> Iterator[Pairs | Patch]:
        possible = self._possible(rows, right)
        if only is not None:
            possible &= only
        count = int(np.count_nonzero(possible))
        if count == 0:
            return
        if count <= self._limits.crowded * (len(rows) + len(columns)):
            row, column = np.divmod(np.flatnonzero(possible), len(columns))
            yield self._decided(rows[row], columns[column])
            return
        some, several = np.flatnonzero(possible.any(axis=1)), np.flatnonzero(possible.any(axis=0))
        kept = None if only is None else only[np.ix_(some, several)]
        yield self._patch(rows[some], columns[several], kept)

    def _possible(self, rows: Places, right: Floats) -> Mask:
        """Pairs that the leading coordinates leave; valid until this thread asks again."""
        scratch, size = self._scratch, len(rows) * right.shape[1]
        left = np.take(self._layout.short, rows, axis=0, out=scratch.left[: len(rows)], mode="clip")
        shape = (len(rows), right.shape[1])
        closeness = np.matmul(left, right, out=scratch.closeness[:size].reshape(shape))
        return np.greater_equal(closeness, self._bound, out=scratch.possible[:size].reshape(shape))

    def _decided(self, left: Places, right: Places) -> Pairs:
        near = self._exactly_near(left, right)
        return Pairs(left[near], right[near])

    def _patch(self, rows: Places, columns: Places, only: Mask | None) -> Patch:
        points, halves = self._layout.points, self._layout.halves
        closeness = points[rows] @ points[columns].T
        closeness += halves[rows][:, None]
        closeness += halves[columns]
        slack = rounding(points.shape[1])
        near: Mask = closeness >= np.float32(self._least + slack)
        unclear = closeness >= np.float32(self._least - slack)
        unclear &= ~near
        if only is not None:
            near &= only
            unclear &= only
        row, column = np.divmod(np.flatnonzero(unclear), len(columns))
        near[row, column] = self._exactly_near(rows[row], columns[column])
        return Patch(rows, columns, near)

    def _exactly_near(self, left: Places, right: Places) -> Mask:
        """Squared distances of the given vectors in float64, at most eps^2."""
        near = np.empty(len(left), dtype=np.bool_)
        order = self._layout.order
        for first in range(0, len(left), self._limits.exact_pairs):
            part = slice(first, first + self._limits.exact_pairs)
            gap = self._vectors[order[left[part]]].astype(np.float64) - self._vectors[order[right[part]]]
            near[part] = np.einsum("ij,ij->i", gap, gap) <= self._square
        return near
