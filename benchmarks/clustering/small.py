"""Small sets with known answers: those that scikit-learn ships and shapes that trap chaining.

Labels come from the scan, which real runs use for many points only; truth is scikit-learn's DBSCAN.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.cluster import DBSCAN
from sklearn.metrics import adjusted_rand_score

from edgeloop.figures import Figure, at_least, at_most, exactly
from services.curation.domain.collapse import collapse
from services.curation.domain.dbscan import cluster_points
from services.curation.domain.shape import cap_diameter

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

CAP = 2.0


def small_figures() -> list[Figure]:
    """Labels on small sets, shapes that are found whole, and chains under the cap."""
    return [*_equal_labels(), *_found_shapes(), *_overlapping(), *_chains()]


def _scan(points: Array, eps: float, min_samples: int) -> Labels:
    collapsed = collapse(points.astype(np.float32))
    return cluster_points(collapsed, eps, min_samples, len(points), direct_points=0).labels


def _equal_labels() -> list[Figure]:
    sets = {
        "iris": (datasets.load_iris().data, 0.5),
        "wine": (datasets.load_wine().data, 30.0),
        "breast_cancer": (datasets.load_breast_cancer().data, 60.0),
        "digits": (datasets.load_digits().data, 20.0),
        "diabetes": (datasets.load_diabetes().data, 0.1),
    }
    figures = []
    for name, (points, eps) in sets.items():
        ours, theirs = _scan(points, eps, 5), DBSCAN(eps=eps, min_samples=5).fit_predict(points.astype(np.float32))
        wrong = int(np.count_nonzero(ours != theirs))
        figures.append(exactly(f"small.{name}.wrong_labels", wrong, f"of {len(points)} points", 0))
    return figures


def _found_shapes() -> list[Figure]:
    """Shapes that are no balls, far enough apart to have one right answer."""
    grid = np.array([(4.0 * x, 4.0 * y) for x in range(4) for y in range(2)])
    sets = {
        "moons": (*datasets.make_moons(2_000, noise=0.04, random_state=0), 0.12),
        "circles": (*datasets.make_circles(2_000, noise=0.02, factor=0.5, random_state=0), 0.12),
        "blobs": (*datasets.make_blobs(2_000, centers=grid, cluster_std=0.3, random_state=1), 0.6),
        "hepta": (*_hepta(), 0.9),
        "chainlink": (*_chainlink(), 0.25),
        "target": (*_target(), 0.25),
    }
    return [
        at_least(
            f"small.{name}.ari_truth", round(float(adjusted_rand_score(truth, _scan(points, eps, 5))), 4), "", 0.99
        )
        for name, (points, truth, eps) in sets.items()
    ]


def _hepta() -> tuple[Array, Labels]:
    """Seven balls: one in the middle of six."""
    rng = np.random.default_rng(11)
    centres = 4.0 * np.concatenate([np.zeros((1, 3)), np.eye(3), -np.eye(3)])
    truth = np.repeat(np.arange(7), 200)
    return centres[truth] + 0.3 * rng.normal(size=(1_400, 3)), truth


def _chainlink() -> tuple[Array, Labels]:
    """Two rings, each through the other: no plane parts them."""
    rng = np.random.default_rng(12)
    angle, zero = rng.uniform(0.0, 2.0 * np.pi, 1_000), np.zeros(1_000)
    flat = np.stack([np.cos(angle), np.sin(angle), zero], axis=1)
    upright = np.stack([1.0 + np.cos(angle), zero, np.sin(angle)], axis=1)
    return np.concatenate([flat, upright]) + 0.04 * rng.normal(size=(2_000, 3)), np.repeat([0, 1], 1_000)


def _target() -> tuple[Array, Labels]:
    """A disc inside a ring: one middle, two clusters."""
    rng = np.random.default_rng(13)
    angle = rng.uniform(0.0, 2.0 * np.pi, 2_000)
    reach = np.concatenate([np.sqrt(rng.uniform(0.0, 1.0, 800)), 3.0 + 0.08 * rng.normal(size=1_200)])
    return np.stack([reach * np.cos(angle), reach * np.sin(angle)], axis=1), np.repeat([0, 1], [800, 1_200])


def _overlapping() -> list[Figure]:
    """Blobs with random centres touch each other, so no clustering by density finds all: printed for both, and the
    labels have to be scikit-learn's. The promise above is about blobs on a grid, which have one right answer.
    """
    points, truth = datasets.make_blobs(2_000, centers=8, cluster_std=0.3, random_state=1)
    ours, theirs = _scan(points, 0.6, 5), DBSCAN(eps=0.6, min_samples=5).fit_predict(points.astype(np.float32))
    scores = [round(float(adjusted_rand_score(truth, labels)), 4) for labels in (ours, theirs)]
    return [
        Figure("small.blobs_random.ari_truth", scores[0], "", "printed", True),
        Figure("small.blobs_random.sklearn_ari_truth", scores[1], "", "printed", True),
        exactly(
            "small.blobs_random.wrong_labels", int(np.count_nonzero(ours != theirs)), f"of {len(points)} points", 0
        ),
    ]


def _chains() -> list[Figure]:
    """What DBSCAN joins through a bridge of points one step apart, the cap takes apart again."""
    rng = np.random.default_rng(3)
    balls = [rng.normal(scale=0.05, size=(200, 32)) for _ in range(2)]
    balls[1][:, 0] += 6.0
    bridge = np.zeros((40, 32))
    bridge[:, 0] = np.linspace(0.0, 6.0, 40)
    circle = np.linspace(0.0, 2.0 * np.pi, 3_000, endpoint=False)
    return [
        *_chain("bridge", np.concatenate([*balls, bridge]), 0.5),
        *_chain("ring", np.stack([np.cos(circle), np.sin(circle)], axis=1), 0.05),
        *_chain("line", np.linspace(0.0, 50.0, 5_000)[:, None] * np.eye(1, 32), 0.05),
    ]


def _chain(name: str, points: Array, eps: float) -> list[Figure]:
    vectors, raw = points.astype(np.float32), _scan(points, eps, 3)
    capped = cap_diameter(vectors, raw, CAP * eps)
    widest = max(_diameter(points[capped == label]) for label in range(int(capped.max()) + 1))
    return [
        exactly(f"chain.{name}.clusters", int(raw.max()) + 1, "by DBSCAN", 1),
        at_most(f"chain.{name}.widest", round(widest / eps, 3), "eps, after the cap", 2 * CAP),
        exactly(f"chain.{name}.lost", int(np.count_nonzero((capped < 0) != (raw < 0))), "points", 0),
    ]


def _diameter(points: Array) -> float:
    return max(float(np.linalg.norm(points - point, axis=1).max()) for point in points)
