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
from services.releases.verdict.past import CrashPast, Observed, doubtful, exceeds

SEED = 546
RUNS, POWER_RUNS = 2_000, 400
DEVICES, BEFORE, AFTER = 7_500, 12, 24
SOAK, PAUSED = 4, 20  # looks in the last stage
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
    margin, each = POLICY.crashes.past_margin, POLICY.alarm_alpha / (POLICY.cell_count() * STRATA)
    alone = POLICY.promote_alpha
    same, week = _any_time(1.0, RUNS, SEED), _any_time(1.5, RUNS, SEED + 1)
    found = [
        ceiling("past.called_worse.at_the_margin", _alarms(_any_time(margin, RUNS, SEED + 2), margin, ALPHA), RUNS),
        ceiling("past.called_worse.early_on_other_devices", _alarms(_early(1.0, RUNS, SEED + 3), margin, ALPHA), RUNS),
        ceiling("past.called_worse.another_week", _alarms(week, margin, ALPHA), RUNS),
        ceiling("past.held.no_change", _held(same, alone), RUNS, alone),
        ceiling("past.held.early_on_other_devices", _held(_early(1.0, RUNS, SEED + 3), alone), RUNS, alone),
        _printed("past.held.another_week", _held(week, alone), RUNS),
    ]
    for times, seed in ((5.0, SEED + 4), (8.0, SEED + 5)):
        worse = _early(times, POWER_RUNS, seed)
        name = f"crashes_times_{times:g}"
        found.append(_printed(f"past.held_or_rolled_back.{name}", _held(worse, alone), POWER_RUNS))
        found.append(_printed(f"past.rolled_back.{name}", _alarms(worse, margin, each), POWER_RUNS))
    return found


def _printed(id: str, hits: int, runs: int) -> Figure:
    share = hits / runs
    return printed(id, round(share, 3), f"± {standard_error(share, runs):.3f} ({runs} runs, {DEVICES} devices)")


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


def _held(world: World, alpha: float) -> int:
    """Runs in doubt at every look from the end of the soak until the stage pauses: those that never ship."""
    return sum(
        all(
            doubtful(_past(int(before), int(crashes[look - 1]), look), POLICY.crashes.odds_margin, alpha)
            for look in range(SOAK, PAUSED + 1)
        )
        for before, crashes in zip(world.before, world.after, strict=True)
    )


def _asked(before: int, after: int, look: int, margin: float, alpha: float) -> bool:
    # not above the margin in the sample: no bet is won
    return after > margin * before and exceeds(_past(before, after, look), margin, alpha)


def _past(before: int, after: int, look: int) -> CrashPast:
    return CrashPast(
        Observed(before, DEVICES, DEVICES * BEFORE * FRAMES), Observed(after, DEVICES, DEVICES * look * FRAMES)
    )
