"""The other guards under continuous peeking: failure rates, bounded shares, the sample ratio, the worst stratum."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.judging.rows import ceiling, floor, printed
from benchmarks.judging.tables import ALPHA
from edgeloop.figures import Figure
from services.releases.verdict import betting, sample_ratio
from services.releases.verdict.alarm import Cell, mean_log_e, worst_strata
from services.releases.verdict.intervals import Difference, rate_log_wealth

SEED = 545
RUNS = 1_000
PRIOR = (1.0, 3.0)
RATE, DEVICES = 0.02, 300
SHARE_LOOKS, SHARE_STEP = 15, 20
RATIO_LOOKS, RATIO_STEP, LOST = 100, 50, 0.10
STRATA, HARMED, STRATUM_LOOKS, PAIRS_A_LOOK, HARM = 8, 3, 10, 30, 0.35


def figures() -> list[Figure]:
    """All figures of the guards."""
    return [*_rates(), *_shares(), *_sample_ratio(), *_worst_stratum()]


def _rates() -> list[Figure]:
    """The beta-binomial sequence, asked after every device at the true rate."""
    generator, crossed, bar = np.random.default_rng(SEED), 0, -math.log(ALPHA)
    for _ in range(RUNS):
        failures = np.cumsum(generator.random(DEVICES) < RATE)
        wealth = (rate_log_wealth(int(seen), count, RATE, PRIOR) for count, seen in enumerate(failures, start=1))
        crossed += any(one >= bar for one in wealth)
    return [ceiling("guards.failure_rate_false_positives", crossed, RUNS)]


def _shares() -> list[Figure]:
    """Betting on shares of frames: three devices in a hundred have any error; asked at the true mean."""
    generator, crossed, bar = np.random.default_rng(SEED + 1), 0, -math.log(ALPHA)
    truth = 0.03 * 0.5
    for _ in range(RUNS):
        size = SHARE_LOOKS * SHARE_STEP
        values = np.where(generator.random(size) < 0.03, generator.random(size), 0.0)
        looks = range(SHARE_STEP, size + 1, SHARE_STEP)
        crossed += any(betting.log_wealth(values[:count], truth) >= bar for count in looks)
    return [ceiling("guards.bounded_share_false_positives", crossed, RUNS)]


def _sample_ratio() -> list[Figure]:
    """Half planned; then a canary that loses a tenth of its devices."""
    bar = -math.log(sample_ratio.ALPHA)
    generator = np.random.default_rng(SEED + 2)
    false = sum(_mismatched(generator, 0.5, bar) for _ in range(RUNS))
    caught = sum(_mismatched(generator, (1 - LOST) / (2 - LOST), bar) for _ in range(RUNS))
    size = RATIO_LOOKS * RATIO_STEP
    return [
        ceiling("guards.sample_ratio_false_alarms", false, RUNS, sample_ratio.ALPHA),
        printed("guards.sample_ratio_caught", caught / RUNS, f"of canaries that lose 10 %, within {size} devices"),
    ]


def _mismatched(generator: np.random.Generator, share: float, bar: float) -> bool:
    canaries = np.cumsum(generator.binomial(RATIO_STEP, share, RATIO_LOOKS))
    counts = RATIO_STEP * np.arange(1, RATIO_LOOKS + 1)
    return any(
        sample_ratio.log_wealth(int(canary), int(count - canary), 0.5) >= bar
        for canary, count in zip(canaries, counts, strict=True)
    )


def _worst_stratum() -> list[Figure]:
    """Eight strata, ten looks: nobody harmed, then three; stopped at the first alarm."""
    generator = np.random.default_rng(SEED + 3)
    calm = [_first_alarm(generator, 0) for _ in range(RUNS)]
    harmed = [_first_alarm(generator, HARMED) for _ in range(RUNS)]
    wrong = sum(sum(place >= HARMED for place in named) / len(named) for named in harmed if named)
    return [
        ceiling("guards.worst_stratum_false_alarms", sum(bool(named) for named in calm), RUNS),
        ceiling("guards.worst_stratum_false_discoveries", round(wrong), RUNS),
        floor("guards.worst_stratum_caught", sum(bool(named) for named in harmed), RUNS, 0.8),
    ]


def _first_alarm(generator: np.random.Generator, harmed: int) -> list[int]:
    """Strata named by the first alarm, by number; those below `harmed` really are."""
    effect = np.where(np.arange(STRATA) < harmed, HARM, 0.0)
    shape = (2, STRATA, STRATUM_LOOKS * PAIRS_A_LOOK)
    values = generator.standard_normal(shape)
    values[0] += effect[:, None]
    for look in range(1, STRATUM_LOOKS + 1):
        count = look * PAIRS_A_LOOK
        seen = values[:, :, :count]
        estimate = seen[0].mean(axis=1) - seen[1].mean(axis=1)
        squared = seen.var(axis=2, ddof=1).sum(axis=0) / count
        cells = [
            Cell("mean", str(place), mean_log_e(_part(estimate[place], squared[place], count), 0.0, 300.0))
            for place in range(STRATA)
        ]
        named = worst_strata(cells, ALPHA).named
        if named:
            return [int(cell.stratum) for cell in named]
    return []


def _part(estimate: float, squared: float, count: int) -> Difference:
    return Difference(float(estimate), float(squared), 2 * count, 2.0 * (count - 1))
