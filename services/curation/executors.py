"""Executors for sharded scans: processes on this machine, or the workers of a Dask cluster (extra `scale`).

A worker of a Celery prefork pool may not start processes of its own; there, use Dask or the threads pool.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from services.curation.domain.plan import Means
from services.curation.domain.shards.executor import Executor, Item, Outcome
from services.curation.domain.shards.parts import ShardedScan
from services.curation.limits import CurationSettings

CONNECT_S = 10


class NoExecutor(RuntimeError):
    """The chosen executor is not installed or does not answer; the message says what to do."""


@dataclass(frozen=True)
class _Submitting:
    """Keeps at most `ahead` calls under way; `submit` gives futures."""

    submit: Callable[..., Any]  # Any: concurrent.futures' or Dask's future, which share `result`
    ahead: int

    def map(self, function: Callable[[Item], Outcome], items: Iterable[Item]) -> Iterator[Outcome]:
        waiting: deque[Future[Outcome]] = deque()
        for item in items:
            waiting.append(self.submit(function, item))
            if len(waiting) >= self.ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def means(settings: CurationSettings, direct_points: int) -> Iterator[Means]:
    """How a run clusters, by the settings `shards` and `dask`. Raises NoExecutor."""
    if settings.shards == 1:
        yield Means(direct_points)
        return
    workers = min(settings.shards, os.cpu_count() or 1)
    with dask_executor(settings.dask) if settings.dask else local_processes(workers) as executor:
        yield Means(direct_points, ShardedScan(executor, settings.shards))


@contextmanager
def local_processes(workers: int) -> Iterator[Executor]:
    """Processes on this machine, for the time of the block."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield _Submitting(pool.submit, workers + 1)


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The workers behind a Dask scheduler (`tcp://host:8786`). Raises NoExecutor."""
    try:
        distributed: Any = import_module("distributed")  # Any: an optional dependency without types here
    except ModuleNotFoundError as error:
        raise NoExecutor("Dask is not installed; install the extra `scale`, or empty EDGELOOP_CURATION_DASK") from error
    try:
        client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise NoExecutor(f"no Dask scheduler answers at {address}: {error}") from error
    try:
        workers = max(1, len(client.scheduler_info()["workers"]))
        submit = lambda function, item: client.submit(function, client.scatter(item, hash=False), pure=False)  # noqa: E731
        yield _Submitting(submit, workers + 1)
    finally:
        client.close()
