"""Group concurrent requests: what arrives while one batch is at work becomes the next batch.

Nothing waits for a timer. A lone request is worked on at once; under load a batch grows to whatever came in while
the batches before it were busy, so a commit, or a look-up, is shared by many. The work runs in threads of its own and
answers each item apart: a value, or an exception that is raised for that item alone.

Bounded: at most `waiting` items wait. One more is refused with `Busy`, which says how long the queue needs to drain.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.kit.problems import TooManyRequests

T = TypeVar("T")
R = TypeVar("R")
LONGEST_WAIT_S = 60


class Busy(TooManyRequests):
    """The queue is full; comes with `Retry-After`."""


@dataclass(frozen=True)
class BatchLimits:
    """`batch` items at once in one call, `at_once` calls, `waiting` items in the queue."""

    batch: int
    at_once: int
    waiting: int


class Batcher(Generic[T, R]):
    """Hands submitted items to `work` in batches; belongs to the event loop that first submits to it."""

    def __init__(self, name: str, work: Callable[[Sequence[T]], Sequence[R | Exception]], limits: BatchLimits) -> None:
        self._name, self._work, self._limits = name, work, limits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._queue: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._busy = 0
        self._planned = False
        self._pace = 0.0  # items a second, smoothed

    @property
    def waiting(self) -> int:
        """Items that no batch has taken yet."""
        return len(self._queue)

    async def submit(self, item: T) -> R:
        """The answer for `item`; raises what `work` gave for it, or Busy when too much waits."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._move_to(loop)
        if len(self._queue) >= self._limits.waiting:
            raise Busy(f"{len(self._queue)} wait for {self._name}; try later", retry_after_s=self.drain_s())
        answer: asyncio.Future[R] = loop.create_future()
        self._queue.append((item, answer))
        self._plan(loop)
        return await answer

    def drain_s(self) -> int:
        """Whole seconds that the present queue needs at the present pace, 1 to 60."""
        return min(LONGEST_WAIT_S, max(1, math.ceil(len(self._queue) / max(self._pace, 1.0))))

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin on another loop; what the old one left has nobody waiting for it any more."""
        self._loop, self._busy, self._planned = loop, 0, False
        self._queue.clear()
        self._threads = self._threads or ThreadPoolExecutor(self._limits.at_once, thread_name_prefix=self._name)

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start a batch after the callbacks that are ready now, so that they may join it."""
        if self._busy < self._limits.at_once and not self._planned:
            self._planned = True
            loop.call_soon(self._start, loop)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._planned = False
        if loop is not self._loop or not self._queue or self._threads is None:
            return
        batch = [self._queue.popleft() for _ in range(min(self._limits.batch, len(self._queue)))]
        self._busy += 1
        done = loop.run_in_executor(self._threads, self._timed, [item for item, _ in batch])
        done.add_done_callback(lambda outcome: self._settle(loop, batch, outcome))

    def _timed(self, items: list[T]) -> tuple[Sequence[R | Exception], float]:
        begun = time.perf_counter()
        return self._work(items), time.perf_counter() - begun

    def _settle(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: list[tuple[T, asyncio.Future[R]]],
        outcome: asyncio.Future[tuple[Sequence[R | Exception], float]],
    ) -> None:
        if loop is self._loop:
            self._busy -= 1
        error = outcome.exception()
        if error is not None:
            for _, answer in batch:
                _fail(answer, RuntimeError(f"{self._name} failed: {error!r}"))
        else:
            found, seconds = outcome.result()
            pace = len(batch) * self._limits.at_once / max(seconds, 1e-6)
            self._pace = pace if not self._pace else 0.9 * self._pace + 0.1 * pace
            for (_, answer), value in zip(batch, found, strict=True):
                _fail(answer, value) if isinstance(value, Exception) else _answer(answer, value)
        if self._queue and loop is self._loop:
            self._plan(loop)


def _answer(future: asyncio.Future[R], value: R) -> None:
    if not future.done():  # the client may have gone
        future.set_result(value)


def _fail(future: asyncio.Future[R], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
