"""Crashes at full exposure against the same devices' past: false alarms in worlds that differ, and what is found.

Counts of a whole release are drawn look by look: `BEFORE` looks as control, then `AFTER` looks on the new bundle. Three
worlds: any device crashes at any time; few devices crash, early, and another few on the new bundle; another week with
half as many crashes again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.judging.rows import ceiling, printed, standard_error
from benchmarks.judging.tables import ALPHA
from edgeloop.figures import Figure
from services.releases.verdict.guardrails import VerdictPolicy
from services.releases.verdict.past import CrashPast, Observed, exceeds

SEED = 546
RUNS, POWER_RUNS = 2_000, 400
DEVICES, BEFORE, AFTER = 7_500, 12, 24
FRAMES = 100.0
CRASHES, EARLY = 0.002, 0.5
POLICY = VerdictPolicy()
STRATA = 3  # two classes and all of them together
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class World:
    """How many crash as control in all, and on the new bundle by look (runs, looks)."""

    before: Counts
    after: Counts


def figures() -> list[Figure]:
    """All figures of the comparison with the past."""
    margin, doubt = POLICY.crashes.past_margin, POLICY.crashes.odds_margin
    alone = POLICY.promote_alpha
    wrong = {
        "any_time_at_the_margin": _alarms(_any_time(margin, RUNS, SEED), margin, ALPHA),
        "any_time_at_the_margin_of_doubt": _alarms(_any_time(doubt, RUNS, SEED + 1), doubt, alone),
        "early_on_other_devices": _alarms(_early(1.0, RUNS, SEED + 2), doubt, alone),
        "another_week": _alarms(_any_time(1.5, RUNS, SEED + 3), margin, ALPHA),
    }
    found = [ceiling(f"past.false_alarms.{name}", hits, RUNS) for name, hits in wrong.items()]
    found.append(_held_by_another_week(doubt))
    each = POLICY.alarm_alpha / (POLICY.cell_count() * STRATA)
    worse = _early(5.0, POWER_RUNS, SEED + 4)
    held = _alarms(worse, doubt, alone / STRATA) / POWER_RUNS
    unit = f"± {standard_error(held, POWER_RUNS):.3f}, {DEVICES} devices"
    found.append(printed("past.held.crashes_times_5", round(held, 3), unit))
    for times, place in ((5, 4), (8, 5)):
        back = _alarms(_early(times, POWER_RUNS, SEED + place), margin, each)
        share = back / POWER_RUNS
        unit = f"± {standard_error(share, POWER_RUNS):.3f}, {DEVICES} devices"
        found.append(printed(f"past.rolled_back.crashes_times_{times}", round(share, 3), unit))
    return found


def _held_by_another_week(doubt: float) -> Figure:
    """What the narrow margin costs: a harmless release waits for a person because its week was a bad one."""
    share = _alarms(_any_time(1.5, POWER_RUNS, SEED + 6), doubt, POLICY.promote_alpha / STRATA) / POWER_RUNS
    return printed("past.held.another_week", round(share, 3), f"± {standard_error(share, POWER_RUNS):.3f}")


def _any_time(times: float, runs: int, seed: int) -> World:
    """A device's chance of a first crash is the same at each look, `times` as large on the new bundle."""
    draw, a_look = np.random.default_rng(seed), CRASHES / BEFORE
    before = draw.binomial(DEVICES, CRASHES, runs)
    return World(before, draw.binomial(DEVICES, min(times * a_look, 1.0), (runs, AFTER)).cumsum(axis=1))


def _early(times: float, runs: int, seed: int) -> World:
    """A few devices that crash at half of their looks; `times` as many others of them on the new bundle."""
    draw = np.random.default_rng(seed)
    before = draw.binomial(draw.binomial(DEVICES, CRASHES, runs), 1.0 - EARLY**BEFORE)
    prone = draw.binomial(DEVICES, times * CRASHES, runs)
    after = np.zeros((runs, AFTER), dtype=np.int64)
    crashed = np.zeros(runs, dtype=np.int64)
    for look in range(AFTER):
        crashed = crashed + draw.binomial(prone - crashed, EARLY)
        after[:, look] = crashed
    return World(before, after)


def _alarms(world: World, margin: float, alpha: float) -> int:
    """Runs with an alarm at any look."""
    return sum(
        any(_asked(int(before), int(crashed), look, margin, alpha) for look, crashed in enumerate(crashes, start=1))
        for before, crashes in zip(world.before, world.after, strict=True)
    )


def _asked(before: int, after: int, look: int, margin: float, alpha: float) -> bool:
    past = CrashPast(
        Observed(before, DEVICES, DEVICES * BEFORE * FRAMES), Observed(after, DEVICES, DEVICES * look * FRAMES)
    )
    return after > margin * before and exceeds(past, margin, alpha)  # not above it in the sample: no bet is won
