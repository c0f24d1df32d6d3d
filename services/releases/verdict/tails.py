"""Tails: a quantile of latency and a ratio of sums, canary against control, followed by bootstrap paths.

A look is taken when the share of the planned canaries that reported has grown so far that it may spend alpha; between
such looks the last interval stands. Each stage has an even part of the information.

Invariants: pure; at most `tail_devices` of each arm are resampled, those with the smallest keys, which is a fixed and
fair draw; without enough devices or events no look is taken and nothing is spent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.releases.verdict.guardrails import TailGuardrail, VerdictPolicy
from services.releases.verdict.intervals import Interval
from services.releases.verdict.resampling import HistogramSums, Keys, RatioSums, Weights, device_weights
from services.releases.verdict.sequential_bootstrap import BootstrapPlan, PathState, look

Floats = npt.NDArray[np.float64]

EDGES = np.linspace(-4.0, 4.0, 401)  # log latency ratios; a bin is 2 %
LEAST_DEVICES = 30  # of each arm, below which a 95th percentile is one device's word


@dataclass(frozen=True)
class Tail:
    """Single devices, a row each: key, arm, mean log latency ratio (NaN where not measured), driver errors, frames."""

    keys: Keys
    canary: npt.NDArray[np.bool_]
    latency: Floats
    errors: Floats
    frames: Floats

    def arm(self, canary: bool, most: int) -> Tail:
        """The devices of one arm, at most `most` of them."""
        places = np.flatnonzero(self.canary == canary)
        if places.size > most:
            places = places[np.argsort(self.keys[places], kind="stable")[:most]]
        return Tail(
            self.keys[places], self.canary[places], self.latency[places], self.errors[places], self.frames[places]
        )


@dataclass(frozen=True)
class TailLook:
    """What is known of one tail: its paths, and the interval of the last look that was taken."""

    state: PathState
    interval: Interval | None = None
    canary: int = 0
    control: int = 0


def plan_of(policy: VerdictPolicy) -> BootstrapPlan:
    """The plan of each tail: an even part of what tails may spend."""
    return BootstrapPlan(policy.paths, policy.tail_alpha / max(len(policy.tails), 1), seed=policy.seed)


class Resampled:
    """Both arms of one look with their devices' weights, made once for all statistics that ask."""

    def __init__(self, tail: Tail, policy: VerdictPolicy) -> None:
        self.plan = plan_of(policy)
        self.canary, self.control = tail.arm(True, policy.tail_devices), tail.arm(False, policy.tail_devices)
        self._weights: dict[int, Weights] = {}

    def statistic(self, guard: TailGuardrail, arm: Tail) -> tuple[float, Floats]:
        """The guard's statistic of one arm, as seen and on every path."""
        weights = self._of(arm)
        if guard.quantile is None:
            return RatioSums.of(arm.errors, arm.frames, weights).statistic()
        known = np.isfinite(arm.latency)
        return HistogramSums.of(arm.latency[known], weights[known], EDGES).quantile(guard.quantile)

    def _of(self, arm: Tail) -> Weights:
        if id(arm) not in self._weights:
            self._weights[id(arm)] = device_weights(arm.keys, self.plan.paths, self.plan.seed)
        return self._weights[id(arm)]


def follow(before: TailLook | None, guard: TailGuardrail, arms: Resampled, time: float) -> TailLook:
    """Take a look at information `time` in [0, 1] if one is due, else keep what is known."""
    known = before or TailLook(PathState.fresh(arms.plan))
    if time < known.state.time or not known.state.due(time, arms.plan):
        return known
    counts = [_measured(guard, arm) for arm in (arms.canary, arms.control)]
    if not _enough(guard, arms.canary) or min(counts) < LEAST_DEVICES:
        return known
    (new, new_paths), (old, old_paths) = (arms.statistic(guard, arm) for arm in (arms.canary, arms.control))
    found = look(known.state, new - old, new_paths - old_paths, time, arms.plan)
    return TailLook(found.state, found.interval if math.isfinite(found.critical) else known.interval, *counts)


def _enough(guard: TailGuardrail, canary: Tail) -> bool:
    """A spread is not believed while almost nothing happened."""
    return guard.quantile is not None or int((canary.errors > 0).sum()) >= guard.minimum_events


def _measured(guard: TailGuardrail, arm: Tail) -> int:
    return int(np.isfinite(arm.latency).sum()) if guard.quantile is not None else arm.keys.size
