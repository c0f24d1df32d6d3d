"""A process that is spoken to over its standard input and output, with a deadline on every byte.

Why not `communicate`: requests and answers alternate for hours. Invariants: no call waits past its deadline;
the process is ended, and waited for, on every way out; its error output is kept in a file of which only the
end is read.
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from typing import IO

from contracts.lab.errors import LabDied, LabTimeout, LabUnavailable
from contracts.lab.limits import LIMITS

_CHUNK = 1 << 20


class Pipe:
    """The running process."""

    def __init__(self, command: Sequence[str]) -> None:
        self._words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the process
        try:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words, bufsize=0
            )
        except OSError as error:
            self._words.close()
            raise LabUnavailable(f"cannot start {command[0]!r}: {error}; check the lab command") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def send(self, parts: Iterable[memoryview], deadline: float) -> None:
        """Write all parts before `deadline` (time.monotonic); raises LabDied or LabTimeout."""
        for part in parts:
            left = part
            while left:
                self._wait(self._in, select.POLLOUT, deadline)
                try:
                    left = left[os.write(self._in, left[:_CHUNK]) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    raise self._died() from None

    def receive(self, size: int, deadline: float) -> memoryview:
        """Read exactly `size` bytes before `deadline`; raises LabDied or LabTimeout."""
        data = bytearray(size)
        place = memoryview(data)
        while place:
            self._wait(self._out, select.POLLIN, deadline)
            try:
                count = os.readv(self._out, [place[:_CHUNK]])
            except BlockingIOError:
                continue
            if count == 0:
                raise self._died()
            place = place[count:]
        return memoryview(data)

    def close(self, patience_s: float = LIMITS.stop_s) -> None:
        """End the process: close its input, wait `patience_s`, terminate, kill; safe to call twice."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        stops = (
            (self._process.poll, patience_s),
            (self._process.terminate, LIMITS.stop_s),
            (self._process.kill, None),
        )
        for stop, wait_s in stops:
            stop()
            try:
                self._process.wait(wait_s)
                break
            except subprocess.TimeoutExpired:
                continue
        self._words.close()

    def _wait(self, descriptor: int, events: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, events)
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            words = self._last_words()
            self._process.kill()
            raise LabTimeout(f"the lab process {self.pid} did not answer in time and was ended{words}")

    def _died(self) -> LabDied:
        try:
            status = str(self._process.wait(LIMITS.stop_s))
        except subprocess.TimeoutExpired:
            status = "unknown, it closed its pipes"
        return LabDied(f"the lab process {self.pid} ended, exit status {status}{self._last_words()}")

    def _last_words(self) -> str:
        size = os.fstat(self._words.fileno()).st_size
        tail = os.pread(self._words.fileno(), LIMITS.last_words_bytes, max(0, size - LIMITS.last_words_bytes))
        text = tail.decode("utf-8", "replace").strip()
        return f"; its last words: {text}" if text else "; it said nothing"
