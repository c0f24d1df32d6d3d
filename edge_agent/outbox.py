"""Messages that wait for the network, on disk, bounded.

One file a message, written atomically, so a power cut loses at most the message being written. When the box
is full the oldest message of the least important kind goes first and is counted; a full disk costs
messages, never the call. File name: sequence, kind, key; the body carries a CRC so that a torn file is
recognised and dropped.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections import Counter, OrderedDict
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from edge_agent.disk import TEMPORARY, Disk
from edge_agent.errors import OutboxError
from edge_agent.limits import LIMITS

log = logging.getLogger(__name__)


class Kind(IntEnum):
    """What a message is; higher is more important."""

    SEGMENT = 0
    HEALTH = 1
    REPORT = 2
    INSTALL = 3


@dataclass(frozen=True)
class Entry:
    """A message that waits."""

    sequence: int
    kind: Kind
    size: int

    @property
    def file(self) -> str:
        return f"{self.sequence:012d}.{self.kind.name.lower()}"


class Outbox:
    """A bounded queue on disk, safe for one writer thread and one draining thread."""

    def __init__(
        self, folder: Path, disk: Disk, entries: int = LIMITS.outbox_entries, size: int = LIMITS.outbox_bytes
    ) -> None:
        self._folder, self._disk = folder, disk
        self._most_entries, self._most_bytes = entries, size
        self._lock = threading.Lock()
        self._waiting: OrderedDict[int, Entry] = OrderedDict()
        self._bytes = 0
        self.dropped: Counter[str] = Counter()
        disk.make_directory(folder)
        self._load()
        self._next = max(self._waiting, default=0) + 1

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self._bytes

    def put(self, kind: Kind, body: bytes) -> bool:
        """Store a message durably. False when it was dropped (counted in `dropped`); never raises OSError."""
        if len(body) > LIMITS.outbox_entry_bytes:
            raise OutboxError(f"a {kind.name.lower()} message of {len(body)} bytes is over {LIMITS.outbox_entry_bytes}")
        with self._lock:
            entry = Entry(self._next, kind, len(body) + 4)
            if not self._make_room(entry):
                self.dropped[kind.name.lower()] += 1
                return False
            try:
                self._disk.replace(self._folder / entry.file, zlib.crc32(body).to_bytes(4, "little") + body)
            except OSError as error:
                self._clean(entry)
                self.dropped[kind.name.lower()] += 1
                log.warning("outbox: %s message dropped, the disk says: %s", kind.name.lower(), error)
                return False
            self._next += 1
            self._waiting[entry.sequence] = entry
            self._bytes += entry.size
            return True

    def peek(self, kind: Kind, most: int) -> list[tuple[Entry, bytes]]:
        """Return the oldest messages of a kind. A damaged one is dropped and counted."""
        with self._lock:
            chosen = [entry for entry in self._waiting.values() if entry.kind is kind][:most]
        found: list[tuple[Entry, bytes]] = []
        for entry in chosen:
            body = self._read(entry)
            if body is None:
                self.drop(entry)
            else:
                found.append((entry, body))
        return found

    def done(self, entry: Entry) -> None:
        """The platform has it: forget it."""
        with self._lock:
            self._forget(entry)

    def drop(self, entry: Entry) -> None:
        """It will never be accepted: forget it and count it."""
        with self._lock:
            if entry.sequence in self._waiting:
                self._forget(entry)
                self.dropped[entry.kind.name.lower()] += 1

    def _make_room(self, entry: Entry) -> bool:
        while len(self._waiting) >= self._most_entries or self._bytes + entry.size > self._most_bytes:
            least = min(self._waiting.values(), key=lambda e: (e.kind, e.sequence), default=None)
            if least is None or least.kind > entry.kind:
                return False
            self._forget(least)
            self.dropped[least.kind.name.lower()] += 1
        return True

    def _forget(self, entry: Entry) -> None:
        if self._waiting.pop(entry.sequence, None) is None:
            return
        self._bytes -= entry.size
        try:
            self._disk.remove(self._folder / entry.file)
        except OSError as error:
            log.warning("outbox: %s cannot be removed: %s", entry.file, error)

    def _clean(self, entry: Entry) -> None:
        for name in (entry.file, entry.file + TEMPORARY):
            try:
                self._disk.remove(self._folder / name)
            except OSError:
                continue

    def _read(self, entry: Entry) -> bytes | None:
        try:
            raw = self._disk.read(self._folder / entry.file, LIMITS.outbox_entry_bytes + 4)
        except OSError:
            return None
        body = raw[4:]
        return body if len(raw) >= 4 and int.from_bytes(raw[:4], "little") == zlib.crc32(body) else None

    def _load(self) -> None:
        for path in sorted(self._folder.iterdir()):
            entry = _entry_of(path)
            if entry is None:
                self._disk.remove(path)
            else:
                self._waiting[entry.sequence] = entry
                self._bytes += entry.size


def _entry_of(path: Path) -> Entry | None:
    stem, _, kind = path.name.partition(".")
    if not stem.isdigit() or kind.upper() not in Kind.__members__:
        return None
    return Entry(int(stem), Kind[kind.upper()], path.stat().st_size)
