"""A/A once more with nothing drawn from a law: frames of 256 dimensions, reports in bytes, the service's folding.

Frames follow AR(1) with coefficient 0.95, half of their variance lies between devices, and the report of every device
goes through its bytes (float16 means, variances in steps of 6 %). Slow, so the rate is known less well than in
`benchmarks.drifting.alarms`; it is there to show that the shortcut taken there is none. Beside it stands what the same
days would give if frames were taken for the sample: the mistake that makes drift detectors cry wolf.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.drifting.alarms import FIVE, SIGMA_TAIL, within
from benchmarks.drifting.device_days import World, reports
from benchmarks.drifting.population import Population
from benchmarks.judging.rows import printed, standard_error
from contracts.statistics import decode_report
from edgeloop.figures import Figure
from services.drift.domain.accumulator import statistics_of
from services.drift.domain.reading import Reading
from services.drift.domain.reference import Reference, pooled_spread
from services.drift.domain.verdict import measure
from services.drift.domain.votes import Votes
from services.drift.limits import DriftSettings

SEED = 605
COHORTS, DEVICES, FRAMES, FLEETS = 4, 60, 40, 40
WRONG_FRAMES = 10
SETTINGS = DriftSettings()

Say = Callable[[float, str], None]


def figures(say: Say, share: float = 1.0) -> list[Figure]:
    """Rates for both populations, and what frames as the sample would do."""
    found: list[Figure] = []
    for index, population in enumerate((Population(frames=FRAMES), Population(frames=FRAMES, heavy=True))):
        say(0.45 * index, f"A/A from whole frames, {population.name}")
        p = healthy_p_values(population, max(1, round(FLEETS * share)), np.random.default_rng((SEED, index)))
        name = f"aa.whole_frames.{population.name}.{DEVICES}_devices"
        found.append(within(f"{name}.at_5_percent", int((p < FIVE).sum()), len(p), FIVE))
        found.append(within(f"{name}.at_3.5_sigma", int((p < SIGMA_TAIL).sum()), len(p), SIGMA_TAIL))
    say(0.9, "frames taken for the sample")
    p = frames_as_sample(max(1, round(WRONG_FRAMES * share)))
    rate = float((p < SIGMA_TAIL).mean())
    unit = f"± {standard_error(rate, len(p)):.2g} ({len(p)} cohort-days), at 3.5 sigma"
    return [*found, printed("aa.if_frames_were_the_sample", rate, unit)]


def healthy_p_values(population: Population, fleets: int, rng: np.random.Generator) -> np.ndarray:
    """p of one healthy day of every cohort of `fleets` fleets, through reports."""
    world = World.of(SEED)
    reading, found = Reading.of(world.observer.projection), []
    for _ in range(fleets):
        days = [[_reported(world, reading, population, rng) for _ in range(3)] for _ in range(COHORTS)]
        references = [Reference.of_days(cohort[:2]) for cohort in days]
        spread = pooled_spread(references)
        for cohort, reference in zip(days, references, strict=True):
            p = measure(cohort[2], reference, spread, SETTINGS).p
            assert p is not None
            found.append(p)
    return np.array(found)


def frames_as_sample(fleets: int) -> np.ndarray:
    """The same days with one vote a frame instead of one a device."""
    world, rng, population = World.of(SEED), np.random.default_rng(SEED), Population(frames=FRAMES)
    found = []
    for _ in range(fleets):
        days = [_frame_votes(world, world.frames(rng, population, DEVICES)) for _ in range(3)]
        reference = Reference.of_days(days[:2])
        p = measure(days[2], reference, pooled_spread([reference]), SETTINGS).p
        assert p is not None
        found.append(p)
    return np.array(found)


def _reported(world: World, reading: Reading, population: Population, rng: np.random.Generator) -> Votes:
    payloads = reports(world.frames(rng, population, DEVICES), world.observer, 1, 0)
    return statistics_of([decode_report(payload) for payload in payloads], reading).votes


def _frame_votes(world: World, frames: np.ndarray) -> Votes:
    rows = (frames.reshape(-1, frames.shape[-1]) / world.observer.sd0) @ world.observer.projection.T
    return Votes.of_devices(rows.astype(np.float64), np.zeros((len(rows), 1, 1)), np.empty(0), np.empty(0))
