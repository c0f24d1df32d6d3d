"""A disk that dies: it counts every operation, remembers what was flushed, and loses the rest when the power goes.

The model is what POSIX promises and no more. Bytes of a file last after `fsync` of that file; names (made, renamed,
exchanged, removed) last after `fsync` of their folder. Everything else may be there after a crash or not, in parts.
Folders themselves last at once. The real files are always what a running process sees; `crash` rewrites them to what
survived.

`write` is three operations (create, bytes, flush), as the real disk does it.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from edge_agent.disk import Disk
from edge_agent.exchange import ExchangeUnsupported
from tests.support.agent_twin import PowerCut


class Failure(Enum):
    """What happens at the chosen operation."""

    KILL = "process killed"
    """The operation does not happen (bytes: half of them); nothing else is lost."""
    LOSE = "power lost"
    """Whatever was not flushed is gone: bytes and names."""
    TEAR = "power lost, torn"
    """Of what was not flushed any names and any first part of the bytes survive, by seed."""
    LATE = "power lost, late"
    """All names survive and no unflushed byte: renames that overtook the data."""
    FULL = "disk full"
    """From here on nothing can be written, until the device starts again."""
    REFUSE = "one error"
    """This operation fails once (EIO); the process goes on."""


CRASHES = (Failure.KILL, Failure.LOSE, Failure.TEAR, Failure.LATE)
GROWING = ("create", "bytes", "make", "append")


@dataclass
class _File:
    """An inode: `lasting` bytes survive a crash."""

    lasting: bytes = b""
    flushed: bool = False


@dataclass(frozen=True)
class _Change:
    """Names after an operation that is not flushed yet; None: the name is gone."""

    names: tuple[tuple[Path, _File | None], ...]


@dataclass
class CrashDisk(Disk):
    """Fails at operation number `at` (from 1) in the way of `failure`; `at=0` never."""

    at: int = 0
    failure: Failure = Failure.KILL
    seed: int = 0
    can_exchange: bool = True
    flushes: bool = True
    """False: names never last, whatever the disk says; what a device does not notice, a test must."""
    durable: bool = True
    operations: int = 0
    log: list[str] = field(default_factory=list)
    failed: bool = False
    _now: dict[Path, _File] = field(default_factory=dict)
    _last: dict[Path, _File] = field(default_factory=dict)
    _pending: list[_Change] = field(default_factory=list)

    def adopt(self, root: Path) -> None:
        """Take what lies below `root` as flushed."""
        for path in _files(root):
            self._now[path] = self._last[path] = _File(path.read_bytes(), flushed=True)

    def crash(self) -> None:
        """Rewrite the real files to what the failure leaves."""
        if self.failure is Failure.KILL:
            return
        chance = random.Random(self.seed * 1_000_003 + self.at)
        names = dict(self._last)
        for change in self._pending:
            if self.failure is Failure.LATE or (self.failure is Failure.TEAR and chance.random() < 0.5):
                for path, file in change.names:
                    names.pop(path, None) if file is None else names.update({path: file})
        content = {path: self._surviving(file, chance) for path, file in names.items()}
        for path in self._now.keys() | self._last.keys():
            path.unlink(missing_ok=True)
        for path, data in content.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def _surviving(self, file: _File, chance: random.Random) -> bytes:
        if file.flushed or self.failure is not Failure.TEAR:
            return file.lasting
        current = next((path.read_bytes() for path, known in self._now.items() if known is file), b"")
        torn = current[: chance.randrange(len(current) + 1)]
        return torn + bytes(len(current) - len(torn)) if chance.random() < 0.3 else torn

    # operations

    def make_directory(self, path: Path) -> None:
        if not path.exists():
            self._step("make", path)
        super().make_directory(path)

    def write(self, path: Path, data: bytes, mode: int = 0o644) -> None:
        self._step("create", path)
        self._plain_write(path, b"", mode)
        file = self._now.get(path)
        if file is None:
            self._link(path, _File())
        else:  # truncated in place: the bytes from before are not promised any more
            file.flushed, file.lasting = False, b""
        self._bytes(path, b"", data)
        self.sync(path)

    def append(self, path: Path, data: bytes) -> None:
        before = path.read_bytes() if path.exists() else b""
        if path not in self._now:
            self._step("create", path)
            path.write_bytes(b"")
            self._link(path, _File())
        self._bytes(path, before, data)
        self._now[path].flushed = False

    def truncate(self, path: Path, length: int) -> None:
        self._step("truncate", path)
        super().truncate(path, length)
        file = self._now[path]
        file.lasting, file.flushed = file.lasting[:length], False

    def sync(self, path: Path) -> None:
        self._step("flush", path)
        file = self._now[path]
        file.lasting, file.flushed = path.read_bytes(), True

    def rename(self, source: Path, target: Path) -> None:
        self._step("rename", target)
        super().rename(source, target)
        file = self._now.pop(source)
        self._now[target] = file
        self._pending.append(_Change(((source, None), (target, file))))

    def exchange(self, one: Path, other: Path) -> None:
        if not self.can_exchange:
            raise ExchangeUnsupported(errno.EINVAL, "not on this file system", str(one))
        self._step("exchange", one)
        super().exchange(one, other)
        self._now[one], self._now[other] = self._now[other], self._now[one]
        self._pending.append(_Change(((one, self._now[one]), (other, self._now[other]))))

    def sync_directory(self, path: Path) -> None:
        self._step("flush folder", path)
        if not self.flushes:
            return
        kept = []
        for change in self._pending:
            if any(name.parent == path for name, _ in change.names):
                for name, file in change.names:
                    self._last.pop(name, None) if file is None else self._last.update({name: file})
            else:
                kept.append(change)
        self._pending = kept

    def remove(self, path: Path) -> None:
        if not path.exists():
            return
        self._step("remove", path)
        super().remove(path)
        self._now.pop(path, None)
        self._pending.append(_Change(((path, None),)))

    # the failure

    def _bytes(self, path: Path, before: bytes, data: bytes) -> None:
        try:
            self._step("bytes", path)
        except (PowerCut, OSError):
            path.write_bytes(before + data[: len(data) // 2])
            raise
        path.write_bytes(before + data)

    def _link(self, path: Path, file: _File) -> None:
        self._now[path] = file
        self._pending.append(_Change(((path, file),)))

    def _step(self, kind: str, path: Path) -> None:
        if self.failed and self.failure in CRASHES:
            raise PowerCut  # a dead device does nothing more
        self.operations += 1
        self.log.append(f"{kind} {path.name}")
        if self.operations == self.at:
            self.failed = True
            if self.failure in CRASHES:
                raise PowerCut
            if self.failure is Failure.REFUSE:
                raise OSError(errno.EIO, "input/output error", str(path))
        if self.failed and self.failure is Failure.FULL and kind in GROWING:
            raise OSError(errno.ENOSPC, "no space left on device", str(path))

    def _plain_write(self, path: Path, data: bytes, mode: int) -> None:
        path.touch(mode)
        path.write_bytes(data)


def _files(root: Path) -> Iterator[Path]:
    return (path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink())
