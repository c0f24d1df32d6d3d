"""`edgeloop bench dedup`: clustering of near-duplicates against scikit-learn's DBSCAN.

Every measurement runs in a process of its own (`clustering/measure.py`), so that peak memory is its own. Data: unit
vectors, sparse (60 % in clusters of eight on average) and dense (95 % in 200 clusters of Pareto sizes), eps 0.25,
min_samples 2. Times are wall-clock with two threads for ours and scikit-learn's default; memory is the growth of the
process's peak over what it holds before clustering: numpy, scikit-learn and the points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.clustering.measure import SHAPES, Measured, measured
from benchmarks.clustering.small import small_figures
from edgeloop.figures import Figure, at_least, at_most, below, exactly

LEAST_RECALL = 0.99
COMPARED = 50_000
SIZES = ((10_000, 64), (10_000, 256), (50_000, 64), (50_000, 256), (100_000, 64), (100_000, 256))
FASTER, SMALLER = 10.0, 1 / 20
LARGE, LARGE_SECONDS, LARGE_GB = 1_000_000, 180.0, 1.5


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of clustering."""
    tell(0.0, "small sets")
    found: list[Figure] = list(small_figures())
    cases = [(kind, count, width) for count, width in SIZES for kind in SHAPES]
    for index, (kind, count, width) in enumerate(cases):
        tell(0.02 + 0.3 * index / len(cases), f"{kind} {count} x {width}")
        found += case_figures(kind, count, width)
    for index, kind in enumerate(SHAPES):
        tell(0.35 + 0.25 * index, f"{kind} {LARGE} x 64")
        found += large_figures(kind)
    tell(0.85, "scikit-learn on dense 100000 x 64")
    return [*found, *peer_figures()]


def case_figures(kind: str, count: int, width: int) -> list[Figure]:
    """One data set: equal labels up to 50,000 points, audit and cost for all."""
    name, ours = f"{kind}.{count // 1000}k_x{width}", measured("scan", kind, count, width)
    figures = [at_least(f"{name}.recall", ours.recall, "of pairs", LEAST_RECALL)]
    if count <= COMPARED:
        theirs = measured("sklearn", kind, count, width)
        figures += [exactly(f"{name}.ari", ours.agreement(theirs), "against scikit-learn", 1.0)]
        figures += [exactly(f"{name}.labels_equal", ours.digest == theirs.digest, "numbers included", True)]
        figures += cost_figures(f"{name}.sklearn", theirs)
    return [*figures, *cost_figures(name, ours)]


def cost_figures(name: str, found: Measured) -> list[Figure]:
    """Time and memory, printed."""
    return [
        Figure(f"{name}.seconds", round(found.seconds, 2), f"s; {found.cpu:.1f} s of CPU", "printed", True),
        Figure(f"{name}.memory", round(found.grown / 1e6, 1), "MB above the points", "printed", True),
    ]


def large_figures(kind: str) -> list[Figure]:
    """A million points: time with the audit, and the peak of the whole process."""
    ours, name = measured("scan", kind, LARGE, 64), f"{kind}.1m_x64"
    return [
        below(f"{name}.seconds", round(ours.seconds, 1), "s", LARGE_SECONDS),
        below(f"{name}.peak", round(ours.peak / 1e9, 3), "GB, whole process", LARGE_GB),
        at_least(f"{name}.recall", ours.recall, "of pairs", LEAST_RECALL),
        at_least(f"{name}.ari_planted", round(ours.planted, 6), "against planted labels", 0.99),
        Figure(f"{name}.cpu", round(ours.cpu, 1), "s of CPU", "printed", True),
    ]


def peer_figures() -> list[Figure]:
    """Dense 100,000 x 64: both in the same run, one after the other."""
    theirs, ours = measured("sklearn", "dense", 100_000, 64), measured("scan", "dense", 100_000, 64)
    name = "dense.100k_x64"
    return [
        at_least(f"{name}.faster", round(theirs.seconds / ours.seconds, 1), "x scikit-learn", FASTER),
        at_most(f"{name}.smaller", round(ours.grown / theirs.grown, 4), "of scikit-learn's memory", SMALLER),
        at_most(f"{name}.smaller_peak", round(ours.peak / theirs.peak, 4), "of its peak, whole process", SMALLER),
        exactly(f"{name}.labels_equal", ours.digest == theirs.digest, "numbers included", True),
        *cost_figures(f"{name}.sklearn", theirs),
    ]
