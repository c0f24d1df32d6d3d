"""The slots on disk: one small file, exchanged atomically, so a power cut leaves the state before or after.

Bundle files are content-addressed and written before the record that names them. A record that cannot be read
is put aside and the device starts from the built-in bundle: it never stays dark.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contracts.wire import Cause
from edge_agent.disk import TEMPORARY, Disk
from edge_agent.errors import SlotError
from edge_agent.limits import LIMITS
from edge_agent.slots import RollBack, Slot, Slots, SlotState

log = logging.getLogger(__name__)
FILE = "slots.json"
ASIDE = "slots.damaged.json"
FORMAT = 1


class SlotStore:
    """The slots of one device. Every method leaves memory and disk equal, or raises and changes neither."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._path = folder / FILE
        self._disk = disk
        self._lock = threading.Lock()
        disk.make_directory(folder)
        disk.remove(self._path.with_name(FILE + TEMPORARY))
        self._slots = self._load()

    @property
    def slots(self) -> Slots:
        return self._slots

    def apply(self, transition: Callable[[Slots], Slots]) -> Slots:
        """Make `transition` of the present slots the truth.

        Raises SlotError when the transition is not allowed and OSError when the disk refuses; the old state
        stays.
        """
        with self._lock:
            slots = transition(self._slots)
            if slots != self._slots:
                self._write(slots)
            return slots

    def _write(self, slots: Slots) -> None:
        if slots.security_floor < self._slots.security_floor:
            raise SlotError("the security floor never sinks")
        body = json.dumps({"format": FORMAT, **asdict(slots)}, sort_keys=True, separators=(",", ":")).encode()
        self._disk.replace(self._path, body)
        self._slots = slots

    def _load(self) -> Slots:
        try:
            return _parse(json.loads(self._disk.read(self._path, LIMITS.identity_bytes)))
        except FileNotFoundError:
            return Slots()
        except (KeyError, TypeError, ValueError) as error:
            log.error("%s is not readable (%s); it is put aside, the built-in bundle plays", self._path, error)
            self._disk.rename(self._path, self._path.with_name(ASIDE))
            return Slots()


def read_slots(path: Path) -> Slots:
    """Return the slots of a device without touching them; fresh ones when there is no readable record."""
    try:
        return _parse(json.loads(path.read_bytes()[: LIMITS.identity_bytes]))
    except (OSError, KeyError, TypeError, ValueError):
        return Slots()


def _parse(raw: Any) -> Slots:  # Any: decoded JSON
    if raw["format"] != FORMAT:
        raise ValueError(f"format {raw['format']!r}")
    return Slots(
        active=str(raw["active"]),
        previous=str(raw["previous"]),
        a=_slot(raw["a"]),
        b=_slot(raw["b"]),
        security_floor=int(raw["security_floor"]),
        starts=int(raw["starts"]),
        rollbacks=tuple(
            RollBack(str(r["digest"]), str(r["offer"]), Cause(r["cause"]).value, str(r["detail"]))
            for r in raw["rollbacks"]
        ),
    )


def _slot(raw: Any) -> Slot:  # Any: decoded JSON
    return Slot(
        state=SlotState(raw["state"]),
        digest=str(raw["digest"]),
        version=str(raw["version"]),
        offer=str(raw["offer"]),
        security_epoch=int(raw["security_epoch"]),
        boots=int(raw["boots"]),
        cause=str(raw["cause"]),
    )
