"""Reports that wait for their moment: a day's report leaves at a random instant after the day is over.

If every device reported at midnight, the platform would see a whole day in a minute; and the instant of a report would
tell when a device was first used in the morning. The wait is derived from the device's secret and the day, so a restart
neither shortens nor redraws it. A held report survives a restart; the newest few are kept.
"""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path

from edge_agent.disk import Disk
from edge_agent.limits import LIMITS

log = logging.getLogger(__name__)
HELD_FILE = "held.json"


@dataclass(frozen=True)
class Held:
    """An encoded report and the instant of the simulated clock from which it may leave."""

    due: float
    report: bytes


class HeldReports:
    """A short list on disk; a disk that fails costs the reports at the next restart, never the call."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._path, self._disk = folder / HELD_FILE, disk
        self._waiting = self._load()

    def __len__(self) -> int:
        return len(self._waiting)

    def hold(self, report: bytes, due: float) -> None:
        """Keep a report until `due`; when too many wait, the oldest goes."""
        self._waiting = [*self._waiting, Held(due, report)][-LIMITS.held_reports :]
        self._save()

    def take(self, now: float) -> list[bytes]:
        """Return the reports that are due and forget them."""
        if not self._waiting or now < min(held.due for held in self._waiting):
            return []
        ready = [held.report for held in self._waiting if held.due <= now]
        self._waiting = [held for held in self._waiting if held.due > now]
        self._save()
        return ready

    def _save(self) -> None:
        rows = [{"due": held.due, "report": b64encode(held.report).decode("ascii")} for held in self._waiting]
        try:
            self._disk.replace(self._path, json.dumps(rows).encode())
        except OSError as error:
            log.warning("waiting reports were not saved: %s", error)

    def _load(self) -> list[Held]:
        try:
            rows = json.loads(self._disk.read(self._path, LIMITS.held_bytes))
            return [Held(float(row["due"]), b64decode(row["report"], validate=True)) for row in rows]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("waiting reports cannot be read (%s); they are lost", error)
            return []
