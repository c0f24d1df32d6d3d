"""Is the network weak? Judged by round trips to the platform, with two thresholds and a hold, so that it never flaps.

    strong ── median of the last trips over `weak_ms`, or `failures` of them failed ──> weak
    weak   ── all of the last trips answered, median under `good_ms`, for `hold_s` ──> strong

A device with a weak network decodes, conceals and retransmits more and gets smaller pictures: the lite engine of its
bundle leaves it the power for that. Invariants: until enough trips are known the network is strong; memory is bounded;
any thread may tell or ask, asking costs one attribute.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class NetworkLimits:
    """Milliseconds of a round trip, trips looked at, failures among them, seconds that a recovery must last."""

    weak_ms: float = 800.0
    good_ms: float = 300.0
    trips: int = 5
    failures: int = 3
    hold_s: float = 60.0

    def __post_init__(self) -> None:
        if not self.good_ms < self.weak_ms:
            raise ValueError(f"thresholds without a gap would flap: good_ms {self.good_ms}, weak_ms {self.weak_ms}")
        if not 1 <= self.failures <= self.trips:
            raise ValueError(f"{self.failures} failures of {self.trips} trips can never be seen")


class NetworkWatch:
    """What one device sees of its network."""

    def __init__(self, limits: NetworkLimits | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._monotonic = limits or NetworkLimits(), monotonic
        self._trips: deque[float | None] = deque(maxlen=self._limits.trips)
        self._fine_since: float | None = None
        self._lock = threading.Lock()
        self.weak = ""
        """Why the network counts as weak; empty while it is strong."""
        self.changes = 0

    def trip(self, seconds: float, answered: bool) -> None:
        """Take one round trip: its seconds, and whether any answer came."""
        with self._lock:
            self._trips.append(seconds if answered else None)
            if len(self._trips) < self._limits.trips:
                return
            if self.weak:
                self._recover()
            else:
                self._judge()

    def _judge(self) -> None:
        limits, failed = self._limits, self._trips.count(None)
        median = self._median_ms()
        if failed >= limits.failures:
            self._become(f"{failed} of {limits.trips} round trips failed")
        elif median > limits.weak_ms:
            self._become(f"{median:.0f} ms a round trip")

    def _recover(self) -> None:
        now = self._monotonic()
        if None in self._trips or self._median_ms() >= self._limits.good_ms:
            self._fine_since = None
            return
        if self._fine_since is None:
            self._fine_since = now
        if now - self._fine_since >= self._limits.hold_s:
            self._become("")

    def _become(self, weak: str) -> None:
        self.weak, self._fine_since = weak, None
        self.changes += 1

    def _median_ms(self) -> float:
        answered = [one for one in self._trips if one is not None]
        return statistics.median(answered) * 1e3 if answered else 0.0
