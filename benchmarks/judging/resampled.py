"""Seq-Bootstrap: ten looks at statistics without a formula, naive percentile intervals against paths that spend alpha.

Flags use that a sum of c Poisson(1) weights is Poisson(c), which is exact and needs no weight a device; means, ratios
and percentiles run the production path, a weight a device and path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from benchmarks.judging import tables
from benchmarks.judging.rows import ceiling, matches
from benchmarks.judging.tables import ALPHA
from edgeloop.figures import Figure
from services.releases.verdict.resampling import HistogramSums, RatioSums, Weights, device_weights
from services.releases.verdict.sequential_bootstrap import BootstrapPlan, PathState, look

Floats = npt.NDArray[np.float64]
Say = Callable[[float, str], None]

LOOKS, DEVICES = 10, 3_000
FLAG_RUNS, FLAG_RATE = 1_000, 0.02
RUNS = 300
FEW_PATHS = 400
EFFECT = 0.1
SEED = 543
EDGES = np.exp(np.linspace(-4.0, 4.0, 321))
PLAN = BootstrapPlan()
FEW = BootstrapPlan(paths=FEW_PATHS)


@dataclass
class Watched:
    """One experiment's looks at one statistic, judged three ways."""

    plan: BootstrapPlan
    state: PathState = field(init=False)
    paths: bool = False
    naive: bool = False
    bonferroni: bool = False

    def __post_init__(self) -> None:
        self.state = PathState.fresh(self.plan)

    def see(self, estimate: float, paths: Floats, at: int) -> None:
        """The look number `at`; the truth under no effect is 0."""
        paths = paths[: self.plan.paths]
        found = look(self.state, estimate, paths, at / LOOKS, self.plan)
        self.state = found.state
        self.paths |= found.excludes(0.0)
        low, high = _percentiles(paths)
        self.naive |= not low <= 0.0 <= high
        self.bonferroni |= abs(estimate) > -float(ndtri(ALPHA / LOOKS / 2.0)) * found.error


def figures(say: Say = lambda share, text: None) -> list[Figure]:
    """All figures of the sequential bootstrap."""
    return [*_flags(), *_devices(say)]


def _flags() -> list[Figure]:
    generator = np.random.default_rng(SEED)
    runs = [_flag_run(generator) for _ in range(FLAG_RUNS)]
    naive, paths = sum(run.naive for run in runs), sum(run.paths for run in runs)
    return [
        matches("bootstrap.flags.percentile", naive, FLAG_RUNS, tables.NAIVE_BOOTSTRAP),
        matches("bootstrap.flags.paths", paths, FLAG_RUNS, tables.PATHS_FLAGS),
        ceiling("bootstrap.flags.paths_false_positives", paths, FLAG_RUNS),
    ]


def _flag_run(generator: np.random.Generator) -> Watched:
    watched, batch = Watched(PLAN), DEVICES // LOOKS
    arms = [RatioSums(np.zeros(2), np.zeros((2, PLAN.paths))) for _ in range(2)]
    for at in range(1, LOOKS + 1):
        for arm in range(2):
            flags = int(generator.binomial(batch, FLAG_RATE))
            up, down = generator.poisson(flags, PLAN.paths), generator.poisson(batch - flags, PLAN.paths)
            arms[arm] += RatioSums(np.array([flags, batch], dtype=np.float64), np.stack([up, up + down]))
        watched.see(*_difference(arms[0].statistic(), arms[1].statistic()), at)
    return watched


def _devices(say: Say) -> list[Figure]:
    generator = np.random.default_rng(SEED + 1)
    names = ("mean", "ratio", "p95", "shifted")
    full: dict[str, list[Watched]] = {name: [] for name in names}
    few: dict[str, list[Watched]] = {name: [] for name in names}
    for run in range(RUNS):
        say(run / RUNS, f"sequential bootstrap {run} of {RUNS}")
        for name, (one, other) in _device_run(generator).items():
            full[name].append(one)
            few[name].append(other)
    found = []
    for name in ("mean", "ratio", "p95"):
        naive, paths = (sum(getattr(run, what) for run in full[name]) for what in ("naive", "paths"))
        found.append(matches(f"bootstrap.{name}.percentile", naive, RUNS, tables.NAIVE_BOOTSTRAP))
        found.append(ceiling(f"bootstrap.{name}.paths_false_positives", paths, RUNS))
        few_paths = sum(run.paths for run in few[name])
        found.append(matches(f"bootstrap.{name}.{FEW_PATHS}_paths", few_paths, RUNS, tables.PATHS_FEW))
    power, plain = (sum(getattr(run, what) for run in full["shifted"]) for what in ("paths", "bonferroni"))
    return [
        *found,
        matches("bootstrap.power.paths", power, RUNS, tables.POWER_PATHS),
        matches("bootstrap.power.bonferroni", plain, RUNS, tables.POWER_BONFERRONI),
    ]


@dataclass
class _Arm:
    """What one arm of one experiment has added up."""

    mean: RatioSums
    ratio: RatioSums
    latency: HistogramSums


def _device_run(generator: np.random.Generator) -> dict[str, tuple[Watched, Watched]]:
    watched = {name: (Watched(PLAN), Watched(FEW)) for name in ("mean", "ratio", "p95", "shifted")}
    arms: list[_Arm | None] = [None, None]
    for at in range(1, LOOKS + 1):
        for index, arm in enumerate(arms):
            batch = _batch(generator)
            arms[index] = batch if arm is None else _merged(arm, batch)
        canary, control = (arm for arm in arms if arm is not None)
        mean = _difference(canary.mean.statistic(), control.mean.statistic())
        seen = {
            "mean": mean,
            "shifted": (mean[0] + EFFECT, mean[1] + EFFECT),
            "ratio": _difference(canary.ratio.statistic(), control.ratio.statistic()),
            "p95": _difference(canary.latency.quantile(0.95), control.latency.quantile(0.95)),
        }
        for name, (estimate, paths) in seen.items():
            for one in watched[name]:
                one.see(estimate, paths, at)
    return watched


def _batch(generator: np.random.Generator, devices: int = DEVICES // LOOKS) -> _Arm:
    """New devices of one look: a normal score, errors in a number of frames, a lognormal latency."""
    keys = generator.integers(0, 2**64, devices, dtype=np.uint64)
    weights: Weights = device_weights(keys, PLAN.paths, PLAN.seed)
    frames = np.exp(generator.normal(6.0, 0.5, devices))
    errors = generator.poisson(frames * generator.gamma(2.0, 0.005, devices)).astype(np.float64)
    return _Arm(
        RatioSums.of(generator.standard_normal(devices), np.ones(devices), weights),
        RatioSums.of(errors, frames, weights),
        HistogramSums.of(np.exp(0.5 * generator.standard_normal(devices)), weights, EDGES),
    )


def _merged(arm: _Arm, batch: _Arm) -> _Arm:
    return _Arm(arm.mean + batch.mean, arm.ratio + batch.ratio, arm.latency + batch.latency)


def _difference(canary: tuple[float, Floats], control: tuple[float, Floats]) -> tuple[float, Floats]:
    return canary[0] - control[0], canary[1] - control[1]


def _percentiles(paths: Floats) -> tuple[float, float]:
    tail = int(paths.size * ALPHA / 2.0)
    ordered = np.partition(paths, (tail, paths.size - 1 - tail))
    return float(ordered[tail]), float(ordered[paths.size - 1 - tail])
