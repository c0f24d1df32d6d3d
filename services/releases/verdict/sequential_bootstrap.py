"""Repeated looks at a statistic that has no formula for its spread: bootstrap paths that spend alpha.

Every path b follows the statistic T over the looks with its own device weights. At look k the paths' distances
|T*_bk - T_k| / se*_k stand for what chance does; the critical value c_k lets so many paths cross for the first time
that the share that ever crossed is what the spending function allows by then. T_k +- c_k se*_k is a repeated
confidence interval. Ratios and quantiles need nothing else.

Invariants: pure; the share of paths that crossed never exceeds the alpha spent; the same inputs give the same
interval; a look without information (no spread, no evidence) gives an unbounded interval and spends nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from services.releases.verdict.intervals import Interval
from services.releases.verdict.spending import Spending, linear

Floats = npt.NDArray[np.float64]

LEAST_PATHS = 1_000


@dataclass(frozen=True)
class BootstrapPlan:
    """How many paths, how much alpha, and how it is spent. Linear or Pocock: early O'Brien-Fleming is below 1/paths."""

    paths: int = LEAST_PATHS
    alpha: float = 0.05
    spending: Spending = linear
    seed: int = 20_261_130


@dataclass(frozen=True)
class PathState:
    """Which paths have crossed so far, and up to which information time alpha is spent. Kept between looks."""

    crossed: npt.NDArray[np.bool_]
    time: float = 0.0

    @staticmethod
    def fresh(plan: BootstrapPlan) -> PathState:
        return PathState(np.zeros(plan.paths, dtype=bool))

    @property
    def spent(self) -> float:
        """The share of paths that crossed: the alpha really used."""
        return float(self.crossed.mean())


@dataclass(frozen=True)
class RepeatedLook:
    """One look: the repeated interval, the critical value in standard errors, and the state for the next look."""

    interval: Interval
    critical: float
    error: float
    state: PathState

    def excludes(self, value: float) -> bool:
        """Whether the interval is certain that the statistic is not `value`."""
        return not self.interval.lower <= value <= self.interval.upper


def look(state: PathState, estimate: float, paths: Floats, time: float, plan: BootstrapPlan) -> RepeatedLook:
    """One look at information `time` (share of the planned devices); `paths` holds the statistic on every path."""
    if paths.shape != state.crossed.shape:
        raise ValueError(f"{paths.size} paths, but {state.crossed.size} were followed: keep the plan of the rollout")
    if not time >= state.time:
        raise ValueError(f"a look at {time:g} after one at {state.time:g}: information never shrinks")
    error = float(np.std(paths[np.isfinite(paths)], ddof=1)) if np.isfinite(paths).sum() > 1 else math.nan
    if not (math.isfinite(estimate) and error > 0):
        return RepeatedLook(Interval(estimate, -math.inf, math.inf), math.inf, error, state)
    distance = np.where(np.isfinite(paths), np.abs(paths - estimate) / error, math.inf)
    critical = _critical(state, distance, plan.spending(time, plan.alpha))
    following = replace(state, crossed=state.crossed | (distance > critical), time=time)
    reach = critical * error
    return RepeatedLook(Interval(estimate, estimate - reach, estimate + reach), critical, error, following)


def _critical(state: PathState, distance: Floats, allowed: float) -> float:
    """The smallest distance that lets no more paths cross than `allowed` of all."""
    still = np.sort(distance[~state.crossed])[::-1]
    budget = math.floor(allowed * distance.size + 1e-9) - int(state.crossed.sum())
    if budget <= 0:
        return float(max(still[0], 0.0)) if still.size else math.inf
    return float(still[budget]) if budget < still.size else 0.0
