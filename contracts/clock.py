"""The clock of everything that thinks in days: drift windows, soak times, cool-downs.

Real time in production. A test or a demo compresses time by writing a small JSON file that every process
reads: from the real instant `real` on, simulated time is `sim + factor * (now - real)`. Deadlines of
security objects (TUF metadata, tokens) never use this clock.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

SECONDS_PER_DAY = 86_400
CLOCK_FILE_VARIABLE = "EDGELOOP_CLOCK_FILE"


class Clock(Protocol):
    """A source of seconds since 1970."""

    def now(self) -> float:
        """Return the present instant in seconds since 1970."""

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of this clock's own time."""


class SystemClock:
    """Real time."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))


@dataclass(frozen=True)
class ClockSetting:
    """One linear piece of compressed time: `sim` at the real instant `real`, running `factor` times as fast."""

    real: float
    sim: float
    factor: float

    def at(self, real_now: float) -> float:
        return self.sim + self.factor * (real_now - self.real)


class FileClock:
    """Compressed time that several processes share through a file.

    The file is looked at no more than twice a second, so a change of pace reaches every process within
    half a second. A file that is missing or half written leaves the last known pace in force.
    """

    LOOK_EVERY_S = 0.5

    def __init__(self, path: Path) -> None:
        self._path = path
        self._setting = ClockSetting(real=time.time(), sim=time.time(), factor=1.0)
        self._looked = 0.0
        self._reload(time.time())

    def now(self) -> float:
        real_now = time.time()
        if real_now - self._looked >= self.LOOK_EVERY_S:
            self._reload(real_now)
        return self._setting.at(real_now)

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds) / max(self._setting.factor, 1e-9))

    @property
    def factor(self) -> float:
        return self._setting.factor

    def _reload(self, real_now: float) -> None:
        self._looked = real_now
        try:
            raw = json.loads(self._path.read_text())
            self._setting = ClockSetting(float(raw["real"]), float(raw["sim"]), float(raw["factor"]))
        except (OSError, ValueError, KeyError, TypeError):
            return


def set_pace(path: Path, factor: float, start: float | None = None) -> ClockSetting:
    """Write a new pace to the clock file; time goes on from where it stood, or from `start`.

    Raises ValueError when `factor` is not positive: simulated time never stands still or runs back.
    """
    if not factor > 0:
        raise ValueError(f"clock factor must be positive, got {factor!r}")
    real_now = time.time()
    sim = FileClock(path).now() if start is None and path.exists() else (start if start is not None else real_now)
    setting = ClockSetting(real=real_now, sim=sim, factor=factor)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"real": setting.real, "sim": setting.sim, "factor": setting.factor}))
    os.replace(temporary, path)
    return setting


def clock_from_environment() -> Clock:
    """Return the clock named by EDGELOOP_CLOCK_FILE, or real time when the variable is not set."""
    name = os.environ.get(CLOCK_FILE_VARIABLE)
    return FileClock(Path(name)) if name else SystemClock()


def day_of(instant: float) -> int:
    """Return the number of whole days since 1970 (UTC) at `instant` seconds."""
    return int(instant // SECONDS_PER_DAY)


def hour_of(instant: float) -> int:
    """Return the number of whole hours since 1970 at `instant` seconds: the finest time that leaves a device."""
    return int(instant // 3600)
