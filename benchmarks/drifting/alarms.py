"""A/A: healthy days, judged as the service judges them. How often does it cry wolf?

Every cohort has two reference days and one judged day, each with fresh devices of the same law; nothing has changed.
Cohorts of a fleet share the pooled spread, as in the service; the evidence rules are lowered to 20 devices for the
smallest cohorts, which the service itself answers with `insufficient_data` (a figure says so).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.drifting.population import Population, device_votes, healthy_fleet
from benchmarks.judging.rows import WIDTH, printed, standard_error
from contracts.statistics.moments import SUBSPACE
from contracts.wire.drift import DriftState
from edgeloop.figures import Figure
from services.drift.domain.reference import pooled_spread
from services.drift.domain.verdict import Verdict, drifting, judge, measure
from services.drift.limits import DriftSettings

Say = Callable[[float, str], None]

SEED = 601
SIGMA_TAIL = 2.326e-4
FIVE = 0.05
LEAST_EXPECTED = 8
"""Expected alarms from which a rate is called resolvable: its standard error is then a third of itself."""

SETTINGS = DriftSettings()
LOWERED = SETTINGS.model_copy(update={"min_devices": 20})
POPULATIONS = (Population(), Population(heavy=True))


@dataclass(frozen=True)
class Size:
    """Devices a cohort and day, cohorts a fleet, and fleets to simulate."""

    devices: int
    cohorts: int
    fleets: int


SIZES = (Size(20, 16, 1_500), Size(60, 8, 3_000), Size(200, 4, 5_000), Size(1_000, 2, 2_000))


@dataclass(frozen=True)
class Outcome:
    """p values of all cohort-days of one case, and how many of them were judged to drift."""

    p: NDArray[np.float64]
    drifted: int

    def hits(self, tail: float) -> int:
        """How many p values lie below `tail`."""
        return int((self.p < tail).sum())


def figures(say: Say, share: float = 1.0) -> list[Figure]:
    """All figures; `share` of the simulations (tests take a part)."""
    found = [_smallest_cohort()]
    for index, population in enumerate(POPULATIONS):
        pooled: list[Outcome] = []
        for place, size in enumerate(SIZES):
            at = (index + place / len(SIZES)) / len(POPULATIONS)
            say(at, f"A/A, {population.name}, {size.devices} devices")
            pooled.append(simulate(population, size, np.random.default_rng((SEED, index, place)), share))
            found += _case(f"aa.{population.name}.{size.devices}_devices", pooled[-1])
        whole = Outcome(np.concatenate([one.p for one in pooled]), sum(one.drifted for one in pooled))
        found += _case(f"aa.{population.name}.all_sizes", whole)
    return found


def simulate(population: Population, size: Size, rng: np.random.Generator, share: float = 1.0) -> Outcome:
    """Judge a healthy day of every cohort of many fleets."""
    p, drifted = [], 0
    for _ in range(max(1, round(size.fleets * share))):
        verdicts = healthy_day(population, size, rng)
        p += [one.p for one in verdicts.values() if one.p is not None]
        drifted += sum(drifting(one.state) for one in verdicts.values())
    return Outcome(np.array(p), drifted)


def healthy_day(population: Population, size: Size, rng: np.random.Generator) -> dict[str, Verdict]:
    """The verdicts of one day of one fleet in which nothing changed."""
    levels = rng.standard_normal((size.cohorts, SUBSPACE))
    references = healthy_fleet(rng, population, levels, size.devices)
    spread = pooled_spread(references)
    measured = {
        f"class{index % 2}/cohort{index}": measure(
            device_votes(rng, population, size.devices, level), reference, spread, LOWERED
        )
        for index, (level, reference) in enumerate(zip(levels, references, strict=True))
    }
    return judge(measured, LOWERED)


def within(id: str, hits: int, runs: int, nominal: float) -> Figure:
    """A false-alarm rate that should lie in [0.5, 2] x nominal; where it cannot be resolved, not surely above it."""
    rate, error = hits / runs, standard_error(hits / runs, runs)
    unit = f"± {error:.2g} ({runs} cohort-days)"
    if runs * nominal >= LEAST_EXPECTED:
        reach, ok = f"{0.5 * nominal:.3g} to {2 * nominal:.3g}", 0.5 * nominal <= rate <= 2 * nominal
    else:
        top = 2 * nominal + WIDTH * standard_error(2 * nominal, runs)
        reach, ok = f"<= {top:.3g}: {2 * nominal:.3g} + 3 SE, not resolvable", rate <= top
    return Figure(id, float(f"{rate:.3g}"), unit, reach, ok)


def _case(name: str, found: Outcome) -> list[Figure]:
    runs = len(found.p)
    drifted = f"of {runs} cohort-days (z, size and discovery rate together)"
    return [
        within(f"{name}.at_5_percent", found.hits(FIVE), runs, FIVE),
        within(f"{name}.at_3.5_sigma", found.hits(SIGMA_TAIL), runs, SIGMA_TAIL),
        printed(f"{name}.judged_to_drift", found.drifted, drifted),
    ]


def _smallest_cohort() -> Figure:
    rng, population = np.random.default_rng(SEED), POPULATIONS[0]
    levels = np.zeros((16, SUBSPACE))
    references = healthy_fleet(rng, population, levels, 20)
    verdict = measure(device_votes(rng, population, 20, levels[0]), references[0], pooled_spread(references), SETTINGS)
    state = verdict.state.value
    return Figure("aa.20_devices.service_says", state, "", "insufficient_data", state == DriftState.INSUFFICIENT.value)
