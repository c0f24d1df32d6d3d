"""Change-point series as people saw them: read out of river's wheel by its own classes, in its own environment.

river is BSD-3-Clause; the series come from the Turing Change Point Dataset (van den Burg and Williams 2020), marked by
five people each. Two files hold more rows than the people saw, so the rows that they saw are taken: every third of
Apple, and of Brent those since 2000, every tenth. (Apple's fall of September 2000 is row 957 = 3 x 319, its mark.)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.environment import environment

REQUIREMENTS = ("river==0.26.1",)
FOLDER = Path(__file__).resolve().parents[3] / "build" / "peers" / "river"
DUMP = Path(__file__).parent / "dump.py"
STEPS = {"Apple": ("", 3), "BrentSpotPrice": ("2000", 10)}
"""First time and step of the rows that were marked, where these are not all rows."""


@dataclass(frozen=True)
class Series:
    """`values` (rows x columns) and the marked rows of each annotator who marked any."""

    name: str
    values: NDArray[np.float64]
    marks: tuple[tuple[int, ...], ...]


def read_series(folder: Path = FOLDER) -> list[Series]:
    """Every series, by name. Needs a package index the first time; raises PeerFailed."""
    written = environment(folder / "environment", REQUIREMENTS).run("python", [str(DUMP)])
    return [series_of(raw) for raw in json.loads(written)]


def series_of(raw: dict[str, object]) -> Series:
    """One series from what `dump.py` wrote."""
    name = str(raw["name"])
    first, step = STEPS.get(name, ("", 1))
    values, times = raw["values"], raw["times"]
    assert isinstance(values, list)
    assert isinstance(times, list)
    rows = [row for row, time in zip(values, times, strict=True) if time >= first][::step]
    marks = raw["annotations"]
    assert isinstance(marks, dict)
    return Series(name, np.array(rows, dtype=np.float64), tuple(tuple(each) for each in marks.values() if each))
