"""A year of cohort-days, verdicts, alarms, thresholds and weekly reports.

The statistics of a cohort-day are a stand-in of 64 bytes: only folding and judging read them, and no page does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from benchmarks.watching.copying import Row
from benchmarks.watching.scale import CLASSES, DAY_S, EMBEDDINGS, Scale
from tests.support.agent_twin import toy_observer

DAYS, DAY_COLUMNS = (
    "drift.cohort_days",
    ("embedding_id", "cohort", "day", "devices", "frames", "clipped", "statistics"),
)
VERDICTS, VERDICT_COLUMNS = (
    "drift.evaluations",
    (
        "embedding_id", "cohort", "day", "devices", "frames", "state", "reason", "p", "z", "d", "js", "score_mean",
        "evaluated", "z_residual", "residual", "directions", "quality_rise_db", "quality_fell",
    ),
)  # fmt: skip
ALARMS, ALARM_COLUMNS = (
    "drift.alarms",
    (
        "id", "embedding_id", "cohorts", "days", "z", "d", "js", "state", "action", "reason", "flow_run_id", "created",
        "decided", "residual", "directions", "quality_fell",
    ),
)  # fmt: skip
THRESHOLDS, THRESHOLD_COLUMNS = "drift.thresholds", ("cohorts", "values", "reason", "author", "created")
OBSERVERS, OBSERVER_COLUMNS = "drift.observers", ("embedding_id", "parameters", "created")
ALARMS_A_DAY, THRESHOLD_CHANGES = 6, 2_400
ACTIONS = ("retrain", "covered", "cool_down", "budget", "benign", "no_examples")
DIRECTIONS = json.dumps([{"axis": axis, "shift": 0.2 + axis / 10, "z": 3.0 + axis} for axis in range(3)])


def embedding(scale: Scale, day: int) -> str:
    """The embedding that the fleet reports on a day: the newer one for the last three quarters of the time."""
    return EMBEDDINGS[1] if day > scale.today - scale.days * 3 // 4 else EMBEDDINGS[0]


def observers(scale: Scale) -> Iterator[Row]:
    """Both embeddings, with parameters that open."""
    parameters = toy_observer().to_bytes()
    for place, name in enumerate(EMBEDDINGS):
        yield name, parameters, f"{scale.now - (len(EMBEDDINGS) - place) * 100 * DAY_S:.1f}"


def cohort_days(scale: Scale) -> Iterator[Row]:
    """Merged statistics of every cohort on every day."""
    dice = scale.dice("cohort-days")
    for day in range(scale.today - scale.days + 1, scale.today + 1):
        counts = dice.integers(20, 5_000, len(scale.cohorts)).tolist()
        for cohort, devices in zip(scale.cohorts, counts, strict=True):
            yield embedding(scale, day), cohort, day, devices, devices * 4_000, 0, bytes(64)


def verdicts(scale: Scale) -> Iterator[Row]:
    """One verdict a cohort and day: one in fifty severe, in spells of a few days."""
    dice = scale.dice("verdicts")
    loud = dice.random((scale.days // 5 + 1, len(scale.cohorts))) < 0.02
    for place, day in enumerate(range(scale.today - scale.days + 1, scale.today + 1)):
        sigma = np.where(
            loud[place // 5], dice.uniform(3.6, 9.0, len(scale.cohorts)), dice.uniform(0, 2.4, len(scale.cohorts))
        )
        for cohort, z in zip(scale.cohorts, sigma.round(3).tolist(), strict=True):
            state = "severe" if z > 3.5 else "warn" if z > 2.3 else "stable"
            reason = "two tests agree" if state == "severe" else ""
            yield (
                embedding(scale, day), cohort, day, 400, 1_600_000, state, reason, 0.01, z, z / 7, z / 40, 2.0,
                f"{(day + 1.2) * DAY_S:.1f}", z / 2, 0.01, DIRECTIONS, 0.1, False,
            )  # fmt: skip


def alarms(scale: Scale) -> Iterator[Row]:
    """A few alarms a day, all decided."""
    dice = scale.dice("alarms")
    for number in range(ALARMS_A_DAY * scale.days):
        day = scale.today - scale.days + 1 + number // ALARMS_A_DAY
        cohorts = [scale.cohorts[place] for place in sorted(dice.choice(len(scale.cohorts), 3, replace=False).tolist())]
        created = (day + 1.3) * DAY_S + number % ALARMS_A_DAY
        yield (
            scale.name("alarm", number, 32), embedding(scale, day), cohorts, [day - 1, day], 5.1, 0.7, 0.2, "severe",
            ACTIONS[number % len(ACTIONS)], "2 of 3 days", None, f"{created:.1f}", f"{created + 5:.1f}", 0.02,
            DIRECTIONS, True,
        )  # fmt: skip


def thresholds(scale: Scale) -> Iterator[Row]:
    """Changes of thresholds, of classes and of single cohorts."""
    for number in range(THRESHOLD_CHANGES):
        cohorts = (
            f"{CLASSES[number % len(CLASSES)]}/*" if number % 5 == 0 else scale.cohorts[number % len(scale.cohorts)]
        )
        at = scale.now - (THRESHOLD_CHANGES - number) * 3_000.0
        yield cohorts, json.dumps({"z_threshold": 3.4 + number % 7 / 10}), "noisy weekdays", "operator:ada", f"{at:.1f}"
