"""The two traps: events taken for devices, and a spread estimated from events that have not happened yet."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.judging import tables
from benchmarks.judging.rows import ceiling, floor, matches, printed
from benchmarks.judging.tables import ALPHA, Simulated
from edgeloop.figures import Figure, at_most
from services.releases.verdict.crashes import CrashEvidence, CrashTable, log_wealth_above
from services.releases.verdict.intervals import mixture_multiplier, tuning

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

SEED = 544
CLUSTER_RUNS, DEVICES, DAYS, EVENTS = 1_000, 400, 14, 10
CRASH_RUNS, LOOKS, STEP, TIMES_CONTROL = 2_000, 60, 20_000 // 60, 99
CRASH_RATE, MINIMUM_EVENTS, CHUNK = 0.002, 10, 100


def figures() -> list[Figure]:
    """All figures of the two traps."""
    return [*_clustering(), *_rare()]


def _clustering() -> list[Figure]:
    found = []
    for index, correlation in enumerate(tables.EVENTS):
        events, daily, devices = _clustered(correlation, SEED + index)
        name = f"trap_events.correlation_{correlation:g}"
        of_events, of_devices = tables.EVENTS[correlation], tables.DEVICES[correlation]
        found += [
            matches(f"{name}.on_events", events, CLUSTER_RUNS, _few(of_events)),
            matches(f"{name}.on_device_days", daily, CLUSTER_RUNS, _few(of_devices)),
            ceiling(f"{name}.on_devices", devices, CLUSTER_RUNS),
        ]
    return found


def _clustered(correlation: float, seed: int) -> tuple[int, int, int]:
    """Runs that are called harmful by events, by device means of the day alone, and by device means so far."""
    generator = np.random.default_rng(seed)
    count = DEVICES * EVENTS * np.arange(1, DAYS + 1)
    by_event = _multipliers(2.0 * count)
    by_device = mixture_multiplier(2.0 * DEVICES, ALPHA, tuning(ALPHA, 2.0 * DEVICES))
    hits = np.zeros(3, dtype=np.int64)
    for _ in range(CLUSTER_RUNS):
        sums, squares = _days(generator, correlation)
        total, power = sums.cumsum(axis=2), squares.cumsum(axis=2)
        mean = total.sum(axis=1) / count
        spread = (power.sum(axis=1) - count * mean**2) / (count - 1)
        z = np.abs(mean[0] - mean[1]) / np.sqrt(spread.sum(axis=0) / count)
        so_far = total / (EVENTS * np.arange(1, DAYS + 1))
        hits += (
            bool((z > by_event).any()),
            bool((_welch(sums / EVENTS) > by_device).any()),
            bool((_welch(so_far) > by_device).any()),
        )
    return int(hits[0]), int(hits[1]), int(hits[2])


def _days(generator: np.random.Generator, correlation: float) -> tuple[Floats, Floats]:
    """Sums and sums of squares of each device's events a day, (arms, devices, days): ten normals a day, exactly."""
    own = generator.normal(scale=math.sqrt(correlation), size=(2, DEVICES, 1))
    shape = (2, DEVICES, DAYS)
    sums = EVENTS * own + generator.normal(scale=math.sqrt((1.0 - correlation) * EVENTS), size=shape)
    return sums, sums**2 / EVENTS + (1.0 - correlation) * generator.chisquare(EVENTS - 1, size=shape)


def _welch(values: Floats) -> Floats:
    """Standardised difference of the arms' means by day, values (arms, devices, days)."""
    difference = values[0].mean(axis=0) - values[1].mean(axis=0)
    return np.asarray(np.abs(difference) / np.sqrt(values.var(axis=1, ddof=1).sum(axis=0) / values.shape[1]))


@dataclass(frozen=True)
class _Crashes:
    """New crashes by run and look."""

    canary: Counts
    control: Counts


def _rare() -> list[Figure]:
    same = _drawn(CRASH_RATE, SEED + 10)
    naive, gated = _asymptotic(same)
    found = [
        matches("trap_rare.sequence", int(naive.any(axis=1).sum()), CRASH_RUNS, tables.RARE_NAIVE),
        matches("trap_rare.sequence_gated", int(gated.any(axis=1).sum()), CRASH_RUNS, tables.RARE_GATED),
        ceiling("trap_rare.sequence_gated_false_positives", int(gated.any(axis=1).sum()), CRASH_RUNS),
        ceiling("trap_rare.exact_false_positives", int(_exact(same).any(axis=1).sum()), CRASH_RUNS),
    ]
    for times, seed in ((5, SEED + 11), (2, SEED + 12)):
        worse = _drawn(CRASH_RATE * times, seed)
        table = tables.RARE_LOOKS[f"times_{times}"]
        for name, alarms in (("sequence_gated", _asymptotic(worse)[1]), ("exact", _exact(worse))):
            caught = alarms.any(axis=1)
            label = f"trap_rare.{name}.crashes_times_{times}"
            middle = float(np.median(np.where(caught, alarms.argmax(axis=1) + 1, LOOKS + 1)))
            if times == 2 and name == "sequence_gated":
                found.append(matches(f"{label}_caught", int(caught.sum()), CRASH_RUNS, tables.RARE_POWER))
            else:
                found.append(floor(f"{label}_caught", int(caught.sum()), CRASH_RUNS, 0.95))
            unit = f"of {LOOKS} looks, {int(middle * STEP)} canaries"
            if name == "sequence_gated":
                near = abs(middle - table) <= 1
                found.append(Figure(f"{label}_median_look", middle, unit, f"reference {table} +- 1", near))
            else:
                found.append(at_most(f"{label}_median_look", middle, unit, table))
    return [*found, printed("trap_rare.minimum_events", MINIMUM_EVENTS, "canary crashes before the gate opens")]


def _drawn(canary_rate: float, seed: int) -> _Crashes:
    generator, shape = np.random.default_rng(seed), (CRASH_RUNS, LOOKS)
    return _Crashes(
        generator.binomial(STEP, canary_rate, shape), generator.binomial(TIMES_CONTROL * STEP, CRASH_RATE, shape)
    )


def _asymptotic(crashes: _Crashes) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Looks at which the normal-mixture sequence excludes no effect, without and with the gate on canary events."""
    devices = STEP * np.arange(1, LOOKS + 1)
    seen = crashes.canary.cumsum(axis=1)
    canary, control = seen / devices, crashes.control.cumsum(axis=1) / (TIMES_CONTROL * devices)
    squared = (canary * (1 - canary) + control * (1 - control) / TIMES_CONTROL) / devices
    outside = np.abs(canary - control) > _multipliers(devices) * np.sqrt(squared)
    return outside, outside & (seen >= MINIMUM_EVENTS)


def _exact(crashes: _Crashes) -> npt.NDArray[np.bool_]:
    """Looks at which the conditional martingale is certain that the canary crashes more."""
    found = []
    for start in range(0, CRASH_RUNS, CHUNK):
        pairs = zip(
            crashes.canary[start : start + CHUNK].ravel(), crashes.control[start : start + CHUNK].ravel(), strict=True
        )
        tables_of = (CrashTable(int(new), STEP, int(old), TIMES_CONTROL * STEP) for new, old in pairs)
        gains = np.array([CrashEvidence().add(table).log_likelihood for table in tables_of])
        likelihood = gains.reshape(-1, LOOKS, gains.shape[1]).cumsum(axis=1)
        found.append(log_wealth_above(likelihood, 1.0) >= -math.log(ALPHA))
    return np.concatenate(found)


def _multipliers(counts: npt.NDArray[np.floating] | Counts) -> Floats:
    """Multipliers of the sequence, tightest at the last count."""
    rho = tuning(ALPHA, float(counts[-1]))
    return np.array([mixture_multiplier(float(count), ALPHA, rho) for count in counts])


def _few(share: float) -> Simulated:
    return Simulated(share, share, tables.TRAP_RUNS)
