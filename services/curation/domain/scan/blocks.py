"""Points cut into blocks that stand out in some direction, and a bound for each block.

Points choose the nearest of some sampled directions; those of one direction are cut by height, the projection on it.
The bound of a block says which points can lie within eps of any of its own: those above a plane, or those inside a
ball, whichever leaves fewer of a sample. Blocks come in order of that share, because a pair is searched from the
block that comes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from services.curation.domain.scan.frame import Array, Floats, Frame, Mask, Places, drawn, rounding
from services.curation.domain.scan.limits import ScanLimits

TINY = 1e-12


@dataclass(frozen=True)
class Bounds:
    """A row y may be near block b where y.normals[b] (for `round[b]`: less |y|^2/2) is at least `least[b]`."""

    normals: Floats
    least: Floats
    round: Mask


@dataclass(frozen=True)
class Blocks:
    """order: the given position of each place. starts: first place of each block, and n."""

    order: Places
    starts: Places
    bounds: Bounds


def cut_into_blocks(vectors: Floats, frame: Frame, eps: float, limits: ScanLimits) -> Blocks:
    """Arrange points (n x d); `eps` is scaled as the frame scales."""
    order, pieces = _pieces(vectors, frame, limits)
    probe = frame.apply(drawn(vectors, limits.probe)).astype(np.float32)
    bounds = [_bound(frame.apply(vectors[order[first:end]]), probe, eps, limits) for first, end in pieces]
    rank = np.argsort([share for *_, share in bounds], kind="stable")
    sizes = np.array([end - first for first, end in pieces], dtype=np.int64)[rank]
    return Blocks(
        order=np.concatenate([order[slice(*pieces[index])] for index in rank]),
        starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        bounds=Bounds(
            normals=np.array([bounds[index][0] for index in rank], dtype=np.float32),
            least=np.array([bounds[index][1] for index in rank], dtype=np.float32),
            round=np.array([bounds[index][2] for index in rank], dtype=np.bool_),
        ),
    )


def _pieces(vectors: Floats, frame: Frame, limits: ScanLimits) -> tuple[Places, list[tuple[int, int]]]:
    """Return an order of the points and the ranges of blocks in it."""
    directions = _directions(vectors, frame, limits)
    nearest, height = np.empty(len(vectors), dtype=np.int32), np.empty(len(vectors), dtype=np.float32)
    for first in range(0, len(vectors), limits.chunk):
        along = frame.apply(vectors[first : first + limits.chunk]).astype(np.float32) @ directions.T
        best, place = along.argmax(axis=1), slice(first, first + len(along))
        nearest[place], height[place] = best, along[np.arange(len(along)), best]
    order = np.lexsort((-height, nearest)).astype(np.int64)
    edges = np.concatenate([[0], np.flatnonzero(np.diff(nearest[order])) + 1, [len(order)]])
    return order, [piece for first, end in pairwise(edges.tolist()) for piece in _cut(first, end, limits)]


def _cut(first: int, end: int, limits: ScanLimits) -> list[tuple[int, int]]:
    """Cut a range into pieces of nearly equal size, none over the limit."""
    edges = np.linspace(first, end, -(-(end - first) // limits.block) + 1).astype(np.int64).tolist()
    return list(pairwise(edges))


def _directions(vectors: Floats, frame: Frame, limits: ScanLimits) -> Floats:
    """Directions of some points from the mean (k x d, unit rows)."""
    count = int(np.clip(len(vectors) // limits.direction_share, 1, limits.directions))
    chosen = frame.apply(drawn(vectors, count))
    unit: Array = chosen / np.maximum(np.linalg.norm(chosen, axis=1, keepdims=True), TINY)
    return unit.astype(np.float32)


def _bound(rows: Array, probe: Floats, eps: float, limits: ScanLimits) -> tuple[Floats, float, bool, float]:
    """Return normal, least value, whether it is a ball, and the share of the probe that passes."""
    slack = 2 * rounding(rows.shape[1])
    upward = _lowest_point(rows, limits.lift_steps)
    normal = (upward / max(float(np.linalg.norm(upward)), TINY)).astype(np.float32)
    height = float((rows @ normal).min()) - eps * max(1.0, float(np.linalg.norm(normal.astype(np.float64)))) - slack
    centre = rows.mean(axis=0).astype(np.float32)
    reach = float(np.linalg.norm(rows - centre, axis=1).max()) + eps
    inside = 0.5 * (float(np.square(centre, dtype=np.float64).sum()) - reach * reach) - slack
    above = float((probe @ normal >= height).mean())
    within = float((probe @ centre - 0.5 * np.square(probe).sum(axis=1) >= inside).mean())
    return (centre, inside, True, within) if within < above else (normal, height, False, above)


def _lowest_point(rows: Array, steps: int) -> Array:
    """Near the point of the rows' convex hull that is nearest to the origin (Frank and Wolfe's method).

    Of all directions, the one to that point has the rows' least projection highest.
    """
    point: Array = rows.mean(axis=0)
    for _ in range(steps):
        corner = rows[int((rows @ point).argmin())]
        way = corner - point
        length = float(way @ way)
        if length <= TINY:
            break
        point = point + min(max(-float(point @ way) / length, 0.0), 1.0) * way
    return point
