"""A cheap stand-in for the quality of a network, so that few networks have to be judged for real.

Quality of a slice of a supernet is close to a sum over stages (each stage is one choice of depth, width, kernel), plus
what depth and weights bring together. Ridge regression over these features learns it from a few dozen judged networks;
its error is printed with every search. It never decides: what it proposes is judged before it counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.search.evolution import Numbers
from flows.tasks.vsr.architecture import Architecture

_RIDGE = 0.3


@dataclass(frozen=True)
class Surrogate:
    """Linear model over `features`; `error` is its root mean square error, each network left out once."""

    weights: Numbers
    centre: float
    error: float

    def predict(self, features: Numbers) -> Numbers:
        """[n, features] -> [n] in the unit of quality."""
        return np.asarray(self.centre + features @ self.weights)


def features(genes: Numbers, upper: Numbers, networks: list[Architecture]) -> Numbers:
    """[n, variables] genes -> [n, features]: one column per value of each gene, and per value of each stage's three.

    Genes behind the stages' (trunk, history) have columns of their own only.
    """
    sizes = upper.astype(int) + 1
    columns = [genes[:, [index]] == np.arange(size) for index, size in enumerate(sizes)]
    for start in range(0, len(sizes) // 3 * 3, 3):
        triple = sizes[start : start + 3]
        code = np.ravel_multi_index(genes[:, start : start + 3].astype(int).T, tuple(triple))
        columns.append(code[:, None] == np.arange(int(np.prod(triple))))
    depth = np.array([[network.depth, np.log(network.parameters())] for network in networks])
    return np.concatenate([*(column.astype(np.float64) for column in columns), depth], axis=1)


def fit(rows: Numbers, quality: Numbers) -> Surrogate:
    """Fit to judged networks, [n, features] and [n]; n may be smaller than the number of features."""
    centre = float(quality.mean())
    gram = rows @ rows.T + _RIDGE * np.eye(len(rows))
    inverse = np.linalg.inv(gram)
    dual = inverse @ (quality - centre)
    left_out = dual / np.diag(inverse)  # errors of leave-one-out, in closed form
    return Surrogate(rows.T @ dual, centre, float(np.sqrt(np.square(left_out).mean())))
