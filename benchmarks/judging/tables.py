"""Published and simulated numbers that the verdict's statistics are held against (two-sided alpha = .05).

Exact tables are given to four or five decimals. Simulated ones are ranges with the number of runs behind them, so that
a comparison can allow for the error of both sides.
"""

from __future__ import annotations

from dataclasses import dataclass

ALPHA = 0.05
Z = 1.959963984540054

PEEKING = {
    1: 0.0500,
    2: 0.0831,
    3: 0.1073,
    4: 0.1262,
    5: 0.1417,
    7: 0.1662,
    10: 0.1934,
    14: 0.2196,
    20: 0.2479,
    30: 0.2802,
    50: 0.3204,
    100: 0.3736,
}

OBRIEN_FLEMING_SPENDING = {
    4: (4.3326, 2.9631, 2.3590, 2.0141),
    5: (4.8769, 3.3570, 2.6803, 2.2898, 2.0310),
    10: (6.9905, 4.8769, 3.9297, 3.3671, 2.9893, 2.7148, 2.5041, 2.3358, 2.1975, 2.0812),
}
POCOCK_SPENDING = {5: (2.438, 2.427, 2.410, 2.397, 2.386)}
POCOCK_CONSTANT = {2: 2.1783, 3: 2.2895, 4: 2.3613, 5: 2.4132, 10: 2.5550}
OBRIEN_FLEMING_CONSTANT = {2: 1.9774, 3: 2.0040, 4: 2.0243, 5: 2.0401, 10: 2.0865}

WIDTH = 1.549


@dataclass(frozen=True)
class Simulated:
    """A range of simulated shares and the runs behind one of them."""

    low: float
    high: float
    runs: int


NAIVE_CONTINUOUS = Simulated(0.38, 0.44, 2_000)
SEQUENCE_CONTINUOUS = Simulated(0.013, 0.024, 2_000)
POWER = {"obrien_fleming": 0.785, "pocock": 0.702}
POWER_SEQUENCE = Simulated(0.53, 0.53, 2_000)
NAIVE_BOOTSTRAP = Simulated(0.19, 0.24, 1_000)
PATHS_FLAGS = Simulated(0.038, 0.045, 1_000)
PATHS_FEW = Simulated(0.050, 0.075, 250)
POWER_PATHS = Simulated(0.963, 0.963, 400)
POWER_BONFERRONI = Simulated(0.923, 0.923, 400)
EVENTS = {0.0: 0.007, 0.05: 0.30, 0.2: 0.60}
DEVICES = {0.0: 0.033, 0.05: 0.020, 0.2: 0.005}
TRAP_RUNS = 300
RARE_NAIVE = Simulated(0.53, 0.53, 2_000)
RARE_GATED = Simulated(0.023, 0.023, 2_000)
RARE_POWER = Simulated(0.96, 0.96, 300)
RARE_LOOKS = {"times_5": 7, "times_2": 28}
