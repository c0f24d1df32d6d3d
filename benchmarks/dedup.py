"""`edgeloop bench dedup`: clustering of near-duplicates against scikit-learn's DBSCAN.

Every measurement runs in a process of its own (`clustering/measure.py`), so that peak memory is its own. Data: unit
vectors, sparse (60 % in clusters of eight on average) and dense (95 % in 200 clusters of Pareto sizes), eps 0.25,
min_samples 2. Both sides may use two threads. Memory is the growth of the process's peak over what it holds before
clustering: numpy, scikit-learn and the points.

Time is taken twice: on the wall, and as CPU seconds, which neighbours on the machine disturb less. Ours is short, so
a moment's disturbance would decide a ratio: it is run before and after scikit-learn, and its median counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from benchmarks.clustering.measure import SHAPES, Measured, measured
from benchmarks.clustering.small import small_figures
from edgeloop.figures import Figure, at_least, at_most, below, exactly

LEAST_RECALL = 0.99
COMPARED = 50_000
SIZES = ((10_000, 64), (10_000, 256), (50_000, 64), (50_000, 256), (100_000, 64), (100_000, 256))
FASTER, SMALLER = 10.0, 1 / 20
ROUNDS = 3
LARGE, LARGE_SECONDS, LARGE_GB = 1_000_000, 180.0, 1.5


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of clustering."""
    tell(0.0, "small sets")
    found: list[Figure] = list(small_figures())
    cases = [(kind, count, width) for count, width in SIZES for kind in SHAPES]
    work = [count * width if count <= COMPARED else count for _, count, width in cases]
    for index, (kind, count, width) in enumerate(cases):
        tell(0.02 + 0.33 * sum(work[:index]) / sum(work), f"{kind} {count} x {width}")
        found += case_figures(kind, count, width)
    for index, kind in enumerate(SHAPES):
        tell(0.35 + 0.25 * index, f"{kind} {LARGE} x 64")
        found += large_figures(kind)
    return [*found, *peer_figures(lambda share, text: tell(0.85 + 0.15 * share, text))]


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


def peer_figures(tell: Callable[[float, str], None]) -> list[Figure]:
    """Dense 100,000 x 64: both in the same run, ours before and after; then the two other ways to the same labels."""
    case = ("dense", 100_000, 64)
    tell(0.0, "dense 100000 x 64 before scikit-learn")
    runs = [measured("scan", *case) for _ in range(ROUNDS)]
    tell(0.25, "scikit-learn on dense 100000 x 64")
    theirs = measured("sklearn", *case)
    tell(0.7, "dense 100000 x 64 after scikit-learn")
    runs += [measured("scan", *case) for _ in range(ROUNDS)]
    name, ours = "dense.100k_x64", runs[0]
    wall, cpu = median(run.seconds for run in runs), median(run.cpu for run in runs)
    spread = f"x scikit-learn; ours {min(r.seconds for r in runs):.1f} to {max(r.seconds for r in runs):.1f} s"
    figures = [
        at_least(f"{name}.faster", round(theirs.seconds / wall, 1), "x scikit-learn", FASTER),
        at_least(f"{name}.faster_cpu", round(theirs.cpu / cpu, 1), "x scikit-learn, CPU seconds", FASTER),
        Figure(
            f"{name}.faster_worst", round(theirs.seconds / max(r.seconds for r in runs), 1), spread, "printed", True
        ),
        at_most(f"{name}.smaller", round(max(r.grown for r in runs) / theirs.grown, 4), "of its memory", SMALLER),
        at_most(f"{name}.smaller_peak", round(ours.peak / theirs.peak, 4), "of its peak, whole process", SMALLER),
        exactly(f"{name}.labels_equal", ours.digest == theirs.digest, "numbers included", True),
        *cost_figures(f"{name}.sklearn", theirs),
    ]
    tell(0.9, "a seventh inserted, and in cells")
    return [*figures, *way_figures("insert", theirs), *way_figures("sharded", theirs)]


def way_figures(way: str, wanted: Measured) -> list[Figure]:
    """Another way to the labels of dense 100,000 x 64."""
    name, found = f"dense.100k_x64.{way}", measured(way, "dense", 100_000, 64)
    return [
        exactly(f"{name}.labels_equal", found.digest == wanted.digest, "to scikit-learn's, numbers included", True),
        at_least(f"{name}.recall", found.recall, "of pairs", LEAST_RECALL),
        *cost_figures(name, found),
    ]
