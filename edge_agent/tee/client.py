"""The agent's side of the trusted environment: starts its process when it is first needed, and outlives it.

A process that died or does not answer in time is ended and started once more; when that fails too the question fails,
and the next tries wait ever longer. Questions have no effect that a second one would change.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edge_agent.limits import LIMITS
from edge_agent.tee.errors import TeeRefused, TeeUnavailable, Why
from edge_agent.tee.face import PublicKeys
from edge_agent.tee.wire import DONE, ProtocolError, Word, receive, send

log = logging.getLogger(__name__)
PASSED = ("PATH", "PYTHONPATH", "LANG", "HOME")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
Command = Callable[[int, Path, Sequence[str]], list[str]]


def tee_command(descriptor: int, folder: Path, classes: Sequence[str]) -> list[str]:
    """The emulated environment's command line."""
    return [sys.executable, "-m", "edge_agent.tee", str(descriptor), str(folder), *classes]


class TeeProcess:
    """A `TrustedEnvironment` behind a socket; for several threads."""

    def __init__(
        self,
        folder: Path,
        classes: Sequence[str],
        command: Command = tee_command,
        patience_s: float = LIMITS.tee_s,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._classes, self._command = folder, tuple(classes), command
        self._patience, self._monotonic = patience_s, monotonic
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._public: PublicKeys | None = None
        self._failures, self._rest_until = 0, 0.0
        self.starts = 0

    @property
    def process_id(self) -> int | None:
        """Of the running process."""
        return self._process.pid if self._process else None

    def public(self) -> PublicKeys:
        if self._public is None:
            sealing, signing = self._parts(Word.PUBLIC, [], 2)
            self._public = PublicKeys(sealing, signing)
        return self._public

    def admit(self, sealed: bytes, envelope: bytes, device_class: str, base: bytes = b"") -> bytes:
        return self._parts(Word.ADMIT, [sealed, envelope, device_class.encode(), base], 1)[0]

    def open(self, stored: bytes) -> memoryview:
        parts, descriptor = self._ask(Word.OPEN, [stored])
        if descriptor < 0:
            if len(parts) != 1:
                raise TeeUnavailable("the trusted environment gave no bundle")
            return memoryview(parts[0])
        try:
            size = os.fstat(descriptor).st_size
            return memoryview(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ))
        except (OSError, ValueError) as error:
            raise TeeUnavailable(f"the trusted environment's pages cannot be mapped: {error}") from error
        finally:
            os.close(descriptor)

    def raise_floor(self, epoch: int) -> int:
        return int.from_bytes(self._parts(Word.FLOOR, [epoch.to_bytes(8, "little")], 1)[0], "little")

    def sign(self, message: bytes) -> bytes:
        return self._parts(Word.SIGN, [message], 1)[0]

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _parts(self, word: Word, parts: Sequence[bytes], count: int) -> list[bytes]:
        found, descriptor = self._ask(word, parts)
        if descriptor >= 0:
            os.close(descriptor)
        if len(found) != count:
            raise TeeUnavailable(f"the trusted environment answered {len(found)} parts to {word.name}")
        return found

    def _ask(self, word: Word, parts: Sequence[bytes]) -> tuple[list[bytes], int]:
        with self._lock:
            if self._monotonic() < self._rest_until:
                raise TeeUnavailable("the trusted environment failed a moment ago; it is tried again later")
            for last in (False, True):
                try:
                    answer = self._once(word, parts)
                except (OSError, ProtocolError) as error:
                    self._end()
                    if last:
                        self._failed()
                        raise TeeUnavailable(f"the trusted environment does not answer: {error!r}") from error
                    log.warning("the trusted environment failed (%r); it is started again", error)
                else:
                    self._failures = 0
                    return answer
        raise AssertionError("unreachable: the last try returns or raises")

    def _once(self, word: Word, parts: Sequence[bytes]) -> tuple[list[bytes], int]:
        channel = self._socket or self._start()
        send(channel, word, parts)
        return _judged(*receive(channel))

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(self._patience)
        environment = {name: os.environ[name] for name in PASSED if name in os.environ} | ONE_THREAD
        with theirs:
            self._socket = ours
            self.starts += 1
            self._process = subprocess.Popen(
                self._command(theirs.fileno(), self._folder, self._classes),
                pass_fds=(theirs.fileno(),),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        _judged(*receive(ours))
        return ours

    def _failed(self) -> None:
        self._rest_until = self._monotonic() + min(LIMITS.tee_rest_most_s, 2.0**self._failures)
        self._failures += 1

    def _end(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self._patience)
            self._process = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._end()


def _judged(word: int, parts: list[bytes], descriptor: int) -> tuple[list[bytes], int]:
    if word == DONE:
        return parts, descriptor
    if descriptor >= 0:
        os.close(descriptor)
    said = parts[0].decode("utf-8", "replace") if parts else ""
    if word == Why.BROKEN or word not in list(Why):
        raise ProtocolError(said or f"answer {word}")
    raise TeeRefused(Why(word), said.split("): ", 1)[-1])
