"""The agent's own file system calls: few, whole and replaceable.

Everything that the agent writes goes through a `Disk`, so that a test can stop the world before any single
operation, lose what was not flushed, or say that the disk is full. Invariant of `replace`: after a crash the old
content or the new one is there, never a part.
"""

from __future__ import annotations

import os
from pathlib import Path

from edge_agent.exchange import exchange_names

TEMPORARY = ".tmp"


class Disk:
    """The real disk. `durable=False` skips the flushes (a simulated device whose host keeps power)."""

    def __init__(self, durable: bool = True) -> None:
        self.durable = durable

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, data: bytes, mode: int = 0o644) -> None:
        """Write a new file and flush it."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if self.durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def append(self, path: Path, data: bytes) -> None:
        """Add to a file, made when it is not there. Not flushed: call `sync`."""
        with open(path, "ab", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]

    def truncate(self, path: Path, length: int) -> None:
        """Cut a file. Not flushed: call `sync`."""
        os.truncate(path, length)

    def sync(self, path: Path) -> None:
        """Flush a file that someone else wrote."""
        if not self.durable:
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def exchange(self, one: Path, other: Path) -> None:
        """Let two existing names trade places at once. Raises ExchangeUnsupported where that does not exist."""
        exchange_names(one, other)

    def sync_directory(self, path: Path) -> None:
        """Make renames and removals in `path` last."""
        self.sync(path)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def read(self, path: Path, most: int) -> bytes:
        """Return at most `most` bytes. Raises OSError."""
        with open(path, "rb") as file:
            return file.read(most)

    def replace(self, path: Path, data: bytes, mode: int = 0o644) -> None:
        """Put `data` at `path` atomically."""
        temporary = path.with_name(path.name + TEMPORARY)
        self.write(temporary, data, mode)
        self.rename(temporary, path)
        self.sync_directory(path.parent)
