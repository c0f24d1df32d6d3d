"""Where a job sits in a process: alone, on one thread, with random numbers that begin at its own seed.

Sums over several threads may round otherwise, and so may a job that goes on with the random numbers of another; neither
may depend on who runs the job. Python's own `random` cannot be had alone, since other threads draw from it (the event
loop of a Dask worker does): a job that wants it takes a `random.Random` of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no stubs

from flows.tasks.training import one_thread

_SEAT = threading.Lock()


@contextmanager
def seat(seed: int) -> Iterator[None]:
    """Wait for the process's seat, sit there, and leave threads and random numbers as they were found."""
    with _SEAT, threadpool_limits(1), one_thread(), torch.random.fork_rng(devices=[]):
        numbers = np.random.get_state()
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            np.random.set_state(numbers)
