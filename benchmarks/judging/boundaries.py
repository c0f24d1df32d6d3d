"""Group-sequential boundaries by recursive integration (Armitage, McPherson, Rowe 1969; Lan, DeMets 1983).

The score process S(t) = Z(t) sqrt(t) is Brownian with drift theta. Between two looks its density on the continuation
region is carried by Gauss-Legendre nodes; what leaves the region at a look is the probability of a first crossing.

The yardstick of the bench, not a part of the product: boundaries need looks that are planned, and a rollout is looked
at every two seconds for as long as it takes.

Invariants: pure and deterministic; two-sided and symmetric; boundaries are in the z scale, one a look; a look that
may spend less than `TINY` gets the marginal quantile, which errs on the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from services.releases.verdict.spending import Spending

Floats = npt.NDArray[np.float64]

TINY = 1e-13
FARTHEST = 37.0
NODES_A_DEVIATION = 4
LEAST_NODES = 48
MOST_LOOKS = 1_000


@dataclass(frozen=True)
class _Density:
    """The not yet stopped process at information `time`: nodes in the score scale and their probability masses."""

    time: float
    nodes: Floats
    masses: Floats


_START = _Density(0.0, np.zeros(1), np.ones(1))


def spending_boundaries(times: Sequence[float], alpha: float, spending: Spending) -> Floats:
    """Boundaries for looks at rising information `times` in (0, 1] that together spend `spending(t)` up to each."""
    density, spent, found = _START, 0.0, []
    for time in _checked(times):
        allowed = spending(time, alpha)
        bound = _boundary(density, time, max(allowed - spent, 0.0))
        found.append(bound)
        density, spent = _carry(density, time, bound, 0.0), allowed
    return np.array(found)


def crossing(times: Sequence[float], bounds: Sequence[float] | Floats, drift: float = 0.0) -> Floats:
    """Probability of the first crossing at each look when Z at full information has mean `drift`."""
    density, found = _START, []
    for time, bound in zip(_checked(times), bounds, strict=True):
        found.append(_leaving(density, time, float(bound), drift))
        density = _carry(density, time, float(bound), drift)
    return np.array(found)


def shaped_boundaries(times: Sequence[float], alpha: float, shape: float) -> Floats:
    """Classic boundaries C t^-shape with exact error `alpha`: shape 0 is Pocock, 1/2 is O'Brien-Fleming."""
    form = np.array(_checked(times)) ** -shape

    def excess(constant: float) -> float:
        return float(crossing(times, constant * form).sum()) - alpha

    return np.asarray(float(brentq(excess, 0.5, 10.0, xtol=1e-10)) * form)


def equally_spaced(looks: int) -> list[float]:
    """Information times of `looks` looks after equal amounts of evidence."""
    if not 1 <= looks <= MOST_LOOKS:
        raise ValueError(f"{looks} looks: a plan has 1 to {MOST_LOOKS}")
    return [look / looks for look in range(1, looks + 1)]


def fixed_drift(alpha: float, power: float) -> float:
    """Mean of Z at the sample size where a single two-sided test at the end has this power."""
    return float(ndtri(1.0 - alpha / 2.0) + ndtri(power))


def _checked(times: Sequence[float]) -> list[float]:
    if not 1 <= len(times) <= MOST_LOOKS:
        raise ValueError(f"{len(times)} looks: a plan has 1 to {MOST_LOOKS}")
    if not times[0] > 0.0 or not times[-1] <= 1.0 or any(later <= time for time, later in pairwise(times)):
        raise ValueError("information times rise strictly and lie in (0, 1]: pass each look's share of the evidence")
    return list(times)


def _leaving(density: _Density, time: float, bound: float, drift: float) -> float:
    """Mass beyond +-bound at `time` among what had not stopped before."""
    step = time - density.time
    spread, edge = math.sqrt(step), bound * math.sqrt(time)
    centre = density.nodes + drift * step
    return float(density.masses @ (ndtr((centre - edge) / spread) + ndtr((-edge - centre) / spread)))


def _boundary(density: _Density, time: float, increment: float) -> float:
    highest = min(-float(ndtri(increment / 2.0)), FARTHEST)  # the marginal quantile bounds a first crossing
    if density.time == 0.0 or increment < TINY:
        return highest
    if _leaving(density, time, 0.0, 0.0) <= increment:
        return 0.0
    return float(brentq(lambda z: _leaving(density, time, z, 0.0) - increment, 0.0, highest + 1e-9, xtol=1e-12))


def _carry(density: _Density, time: float, bound: float, drift: float) -> _Density:
    """The density on the continuation region after the look at `time`."""
    step = time - density.time
    spread, edge = math.sqrt(step), bound * math.sqrt(time)
    reach = min(edge, FARTHEST * math.sqrt(time))
    count = max(LEAST_NODES, math.ceil(NODES_A_DEVIATION * reach / spread))
    unit, weights = np.polynomial.legendre.leggauss(count)
    nodes = reach * unit
    distance = (nodes[:, None] - density.nodes[None, :] - drift * step) / spread
    values = np.exp(-0.5 * distance**2) @ density.masses / (spread * math.sqrt(2.0 * math.pi))
    return _Density(time, nodes, reach * weights * values)
