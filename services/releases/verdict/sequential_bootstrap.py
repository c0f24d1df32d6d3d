"""Repeated looks at a statistic that has no formula for its spread: bootstrap paths that spend alpha.

Every path b follows the statistic T over the looks with its own device weights. At look k the paths' distances
|T*_bk - T_k| / se*_k stand for what chance does; the critical value c_k lets so many paths cross for the first time
that the share that ever crossed is what the spending function allows by then. T_k +- c_k se*_k is a repeated
confidence interval. Ratios and quantiles need nothing else.

The real statistic is one more draw beside the B paths: it passes the r-th largest distance with chance r / (B + 1), so
a look that may spend `s` uses the rank r = floor(s (B + 1)) among paths that have not crossed. Exactly these r paths
then count as crossed, the one *on* the boundary too: what is left of the paths is as extreme as what is left of the
real statistic. (With the next smaller distance, and the boundary's path left in, a nominal .05 was .052 +- .002.)

Invariants: pure; what is spent never exceeds the alpha allowed by then; the same inputs give the same interval; a look
without information (no spread, no evidence) gives an unbounded interval and spends nothing; a look that may not spend
even one rank is no look.
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
    """Which paths have crossed so far, how many ranks are spent, and up to which information time. Kept between looks.

    `critical` is the last look's, for a second look at the same information.
    """

    crossed: npt.NDArray[np.bool_]
    time: float = 0.0
    ranks: int = 0
    critical: float = math.inf

    @staticmethod
    def fresh(plan: BootstrapPlan) -> PathState:
        return PathState(np.zeros(plan.paths, dtype=bool))

    @property
    def spent(self) -> float:
        """The alpha really used."""
        return self.ranks / (self.crossed.size + 1)

    def due(self, time: float, plan: BootstrapPlan) -> bool:
        """Whether a look at `time` may spend at least one rank: asking earlier says nothing."""
        return _ranks(plan.spending(time, plan.alpha), self.crossed.size) > self.ranks


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
    following = _spend(state, distance, time, plan)
    reach = following.critical * error
    return RepeatedLook(Interval(estimate, estimate - reach, estimate + reach), following.critical, error, following)


def _spend(state: PathState, distance: Floats, time: float, plan: BootstrapPlan) -> PathState:
    """The state after a look: critical value, paths that passed it, ranks that are gone."""
    allowed = _ranks(plan.spending(time, plan.alpha), distance.size) - state.ranks
    places = np.flatnonzero(~state.crossed)
    order = places[np.argsort(-distance[places], kind="stable")]
    if allowed <= 0:
        repeated = time == state.time and order.size > 0
        critical = max(state.critical, float(distance[order[0]])) if repeated else math.inf
        return replace(state, time=time, critical=critical)
    rank = min(allowed, order.size)
    crossed = state.crossed.copy()
    crossed[order[:rank]] = True
    critical = float(distance[order[rank - 1]]) if rank else math.inf
    return replace(state, crossed=crossed, time=time, ranks=state.ranks + rank, critical=critical)


def _ranks(share: float, paths: int) -> int:
    return math.floor(share * (paths + 1) + 1e-9)
