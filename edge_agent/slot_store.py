"""The slots on disk: two records of which one counts, exchanged atomically.

A record is written and flushed under the spare name, then the two names trade places in one step (`renameat2`
EXCHANGE; three renames where that does not exist), so a power cut leaves the state before or after. The other record
is the state before: when the first one rots, the device goes on from there instead of from nothing, and a security
floor that rises is written into both.

The frame loop never waits for the disk. A change of bundle is prepared beside it (`prepare`: written and flushed) and
carried out by the exchange alone (`commit`, no flush); what a frame decides (`decide`) is true in memory at once.
`flush` makes both last. Invariants: what lies on disk is what memory says or an earlier state of it; the floor never
sinks; a record that cannot be read is put aside and the device never stays dark.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from contracts.wire import Cause
from edge_agent.disk import Disk
from edge_agent.errors import SlotError
from edge_agent.exchange import ExchangeUnsupported
from edge_agent.limits import LIMITS
from edge_agent.slots import Fall, RollBack, Slot, Slots, SlotState

log = logging.getLogger(__name__)
FILE = "slots.json"
SPARE = "slots.spare.json"
PAST = "slots.past.json"
"""Where the old record waits between two renames, on file systems that cannot exchange."""
ASIDE = "slots.damaged.json"
FORMAT = 2
OLD_FORMAT = 1
"""Without check and generation, in one file; still read."""
Transition = Callable[[Slots], Slots]


@dataclass(frozen=True)
class Prepared:
    """A state that lies flushed under the spare name, and the state that it follows."""

    before: Slots
    after: Slots
    ticket: int


@dataclass(frozen=True)
class _Record:
    slots: Slots
    generation: int


class SlotStore:
    """The slots of one device; for several threads."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder
        self._path, self._spare, self._past = folder / FILE, folder / SPARE, folder / PAST
        self._disk = disk
        self._lock = threading.Lock()
        self._tickets = 0
        self._dirty = False
        self._unflushed = False
        self._doubled = 0
        self._recorded = False
        disk.make_directory(folder)
        found = self._load()
        self._slots, self._generation = found.slots, found.generation

    @property
    def slots(self) -> Slots:
        """What was decided last."""
        return self._slots

    @property
    def pending(self) -> bool:
        """True while the disk knows less than memory."""
        return self._dirty or self._unflushed

    def apply(self, transition: Transition) -> Slots:
        """Make `transition` of the present slots the truth, in memory and for good.

        Raises SlotError when the transition is not allowed and OSError when the disk refuses; the old state
        stays.
        """
        with self._lock:
            slots = self._checked(transition)
            if slots != self._slots or self.pending:
                self._write(slots)
            return slots

    def decide(self, transition: Transition) -> Slots:
        """Make it the truth in memory; `flush` writes it. Raises SlotError."""
        with self._lock:
            slots = self._checked(transition)
            self._dirty = self._dirty or slots != self._slots
            self._slots = slots
            return slots

    def prepare(self, transition: Transition) -> Prepared:
        """Write what `transition` leads to under the spare name. Raises SlotError, OSError."""
        with self._lock:
            slots = self._checked(transition)
            if self.pending:
                self._write(self._slots)
            self._put_spare(slots, self._generation + 1)
            return Prepared(self._slots, slots, self._tickets)

    def commit(self, prepared: Prepared) -> Slots:
        """Make what was prepared the truth by one exchange of names, without a flush.

        Raises SlotError when something else was decided since, and OSError when the disk refuses.
        """
        with self._lock:
            if prepared.ticket != self._tickets or prepared.before != self._slots or self._dirty:
                raise SlotError("the change was prepared for another situation")
            self._swap()
            self._took(prepared.after)
            self._unflushed = True
            return self._slots

    def flush(self) -> None:
        """Write what was decided and make exchanges last. Raises OSError; then it is still to do."""
        with self._lock:
            if self._dirty:
                self._write(self._slots)
            elif self._unflushed:
                self._disk.sync_directory(self._folder)
                self._unflushed = False

    def _checked(self, transition: Transition) -> Slots:
        slots = transition(self._slots)
        if slots.security_floor < self._slots.security_floor:
            raise SlotError("the security floor never sinks")
        return slots

    def _write(self, slots: Slots) -> None:
        body = self._put_spare(slots, self._generation + 1)
        self._swap()
        self._took(slots)
        self._dirty, self._unflushed = False, True
        try:
            self._disk.sync_directory(self._folder)
            self._unflushed = False
            self._double(slots.security_floor, body)
        except OSError as error:
            log.warning("the slot record is written and not flushed yet: %s", error)

    def _double(self, floor: int, body: bytes) -> None:
        """Write a risen floor into the other record too."""
        if floor > self._doubled:
            self._disk.write(self._spare, body)
            self._doubled = floor

    def _put_spare(self, slots: Slots, generation: int) -> bytes:
        """Overwrite the other record, never before the names are flushed that made it the other one."""
        if self._unflushed:
            self._disk.sync_directory(self._folder)
            self._unflushed = False
        self._tickets += 1
        body = _encode(_Record(slots, generation))
        self._disk.write(self._spare, body)
        return body

    def _took(self, slots: Slots) -> None:
        self._slots = slots
        self._generation += 1

    def _swap(self) -> None:
        if not self._recorded:
            self._disk.rename(self._spare, self._path)
            self._recorded = True
            return
        try:
            self._disk.exchange(self._path, self._spare)
        except ExchangeUnsupported:
            self._swap_by_renames()

    def _swap_by_renames(self) -> None:
        """Change over by the second rename. One that fails before it is taken back, one behind it changes nothing."""
        self._disk.rename(self._path, self._past)
        try:
            self._disk.rename(self._spare, self._path)
        except OSError:
            self._disk.rename(self._past, self._path)
            raise
        try:
            self._disk.rename(self._past, self._spare)
        except OSError as error:
            log.warning("%s stays where it is: %s", self._past, error)

    def _load(self) -> _Record:
        """Return the record that counts: the first name's; else the newest readable one."""
        found = {path: self._read(path) for path in (self._path, self._spare, self._past)}
        whole = [record for record in found.values() if record is not None]
        if not whole:
            return _Record(Slots(), 0)
        generation = max(record.generation for record in whole)
        self._doubled = min(record.slots.security_floor for record in whole) if len(whole) > 1 else 0
        first = found[self._path]
        self._recorded = first is not None
        if first is not None:
            return _Record(first.slots, generation)
        newest = max(whole, key=lambda record: record.generation)
        log.error("%s is missing or damaged; going on from generation %d", self._path, newest.generation)
        self._dirty = True
        floor = max(record.slots.security_floor for record in whole)
        return _Record(replace(newest.slots, security_floor=floor), generation)

    def _read(self, path: Path) -> _Record | None:
        try:
            return _decode(self._disk.read(path, LIMITS.identity_bytes))
        except FileNotFoundError:
            return None
        except (OSError, KeyError, TypeError, ValueError) as error:
            if path == self._path:
                log.error("%s is not readable (%s); it is put aside", path, error)
                self._disk.rename(path, path.with_name(ASIDE))
            return None


def read_slots(path: Path) -> Slots:
    """Return the slots of a device without touching them; fresh ones when there is no readable record."""
    for name in (FILE, SPARE, PAST):
        try:
            return _decode(path.with_name(name).read_bytes()[: LIMITS.identity_bytes]).slots
        except (OSError, KeyError, TypeError, ValueError):
            continue
    return Slots()


def _encode(record: _Record) -> bytes:
    body = {"format": FORMAT, "generation": record.generation, **asdict(record.slots)}
    return _canonical({**body, "check": _check(body)})


def _decode(data: bytes) -> _Record:
    raw = json.loads(data)
    if raw["format"] == OLD_FORMAT:
        return _Record(_slots(raw), 0)
    if raw["format"] != FORMAT:
        raise ValueError(f"format {raw['format']!r}")
    if raw.pop("check") != _check(raw):
        raise ValueError("its check does not fit")
    return _Record(_slots(raw), int(raw["generation"]))


def _check(body: dict[str, Any]) -> str:  # Any: JSON
    return hashlib.sha256(_canonical(body)).hexdigest()


def _canonical(body: dict[str, Any]) -> bytes:  # Any: JSON
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _slots(raw: Any) -> Slots:  # Any: decoded JSON
    return Slots(
        active=str(raw["active"]),
        previous=str(raw["previous"]),
        a=_slot(raw["a"]),
        b=_slot(raw["b"]),
        security_floor=int(raw["security_floor"]),
        starts=int(raw["starts"]),
        left=int(raw.get("left", 0)),
        rollbacks=tuple(_roll_back(entry) for entry in raw["rollbacks"]),
        started=bool(raw.get("started", False)),
        falls=tuple(Fall(str(entry["digest"]), int(entry["number"])) for entry in raw.get("falls", ())),
        fallen=int(raw.get("fallen", 0)),
    )


def _roll_back(raw: Any) -> RollBack:  # Any: decoded JSON
    return RollBack(
        digest=str(raw["digest"]),
        offer=str(raw["offer"]),
        cause=Cause(raw["cause"]).value,
        detail=str(raw["detail"]),
        ran=bool(raw.get("ran", True)),
        number=int(raw.get("number", 0)),
        told=bool(raw.get("told", True)),
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
        armed=int(raw.get("armed", 0)),
    )
