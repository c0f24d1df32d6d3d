"""The pace of simulated time, held at what this machine can play.

A fleet that cannot play its frames in time skips them, and a day with too few frames sends no report. So time slows
down while frames are skipped and speeds up again, never above the wanted factor.
"""

from __future__ import annotations

from pathlib import Path

from contracts.clock import set_pace
from demo.observe import Json

SLOWEST = 300.0
SKIPPED_MUCH, SKIPPED_LITTLE = 0.15, 0.03
SLOWER, FASTER = 0.6, 1.25
JUDGED_FRAMES = 200


class Pace:
    """Writes the clock file. `want` sets the goal, `adapt` holds it against what the fleet manages."""

    def __init__(self, clock_file: Path) -> None:
        self._file = clock_file
        self._wanted = 1.0
        self.factor = 1.0
        self._seen = (0, 0)

    def want(self, factor: float) -> None:
        """Go at this factor from now on."""
        self._wanted = factor
        self._go(factor)

    def adapt(self, fleet: Json) -> None:
        """Look at the fleet's counters and change the factor if they ask for it."""
        frames, skipped = int(fleet.get("frames", 0)), int(fleet.get("frames_skipped", 0))
        played, missed = frames - self._seen[0], skipped - self._seen[1]
        if played + missed < JUDGED_FRAMES:
            return
        self._seen = (frames, skipped)
        share = missed / (played + missed)
        if share > SKIPPED_MUCH and self.factor > SLOWEST:
            self._go(max(SLOWEST, self.factor * SLOWER))
        elif share < SKIPPED_LITTLE and self.factor < self._wanted:
            self._go(min(self._wanted, self.factor * FASTER))

    def _go(self, factor: float) -> None:
        self.factor = factor
        set_pace(self._file, factor)
