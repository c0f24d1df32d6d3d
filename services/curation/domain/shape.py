"""Medoid, radius and the cap on diameter.

DBSCAN chains: A near B near C joins pictures that have nothing in common. A cluster whose members lie
farther than the cap from its medoid is cut into pieces around far-apart members, until every piece is
tight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """Centre of mass, the member nearest to it (position in the given rows), and the largest distance from
    it.
    """

    centroid: Array
    medoid: int
    radius: float


def shape_of(rows: NDArray[np.float32]) -> Shape:
    """Describe members (n x d, n >= 1). The medoid is the member nearest to the centroid, the first of
    equals.
    """
    points = rows.astype(np.float64)
    centroid = points.mean(axis=0)
    medoid = int(np.argmin(np.linalg.norm(points - centroid, axis=1)))
    radius = float(np.linalg.norm(points - points[medoid], axis=1).max())
    return Shape(centroid, medoid, radius)


def split_to_radius(rows: NDArray[np.float32], cap: float) -> list[NDArray[np.int64]]:
    """Cut members (n x d) into groups of positions, each within `cap` of its centre; one group when they fit.

    Farthest-point centres starting at the medoid: deterministic, and centres lie farther than `cap` apart.
    """
    points = rows.astype(np.float64)
    centres = [shape_of(rows).medoid]
    nearest = np.linalg.norm(points - points[centres[0]], axis=1)
    owner = np.zeros(len(points), dtype=np.int64)
    while nearest.max() > cap:
        farthest = int(np.argmax(nearest))
        distance = np.linalg.norm(points - points[farthest], axis=1)
        closer = distance < nearest
        owner[closer] = len(centres)
        nearest = np.minimum(nearest, distance)
        centres.append(farthest)
    return [np.flatnonzero(owner == index) for index in range(len(centres))]


def cap_diameter(vectors: NDArray[np.float32], labels: NDArray[np.int64], cap: float) -> NDArray[np.int64]:
    """Return labels in which no cluster exceeds the cap; clusters are renumbered from 0 in order of label."""
    capped = np.full(len(labels), -1, dtype=np.int64)
    next_label = 0
    for members in members_by_label(labels):
        for piece in split_to_radius(vectors[members], cap):
            capped[members[piece]] = next_label
            next_label += 1
    return capped


def members_by_label(labels: NDArray[np.int64]) -> Sequence[NDArray[np.int64]]:
    """Return the positions of each label from 0 on, in order; noise is left out."""
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(int(labels.max(initial=-1)) + 2))
    return [order[first:end] for first, end in pairwise(ends)]
