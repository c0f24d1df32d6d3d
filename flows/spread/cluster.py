"""Workers of a Dask cluster (extra `scale`): those behind a scheduler, or a cluster of this machine's own.

They read and write the run's folder under the same path. Dask itself begins a task again whose worker died, and gives
it up after `distributed.scheduler.allowed-failures` deaths.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any

from flows.errors import StepError
from flows.spread.board import Board
from flows.spread.job import Order
from flows.spread.runner import ATTEMPTS, Given
from flows.spread.work import attempted

CONNECT_S = 10
LOOK_EVERY_S = 0.5
GONE = ("cancelled", "lost")


class Cluster:
    """A client that is connected when the first jobs come. Raises StepError when the extra is not installed."""

    apart = True

    def __init__(self, address: str = "", count: int | None = None) -> None:
        self._address, self._count = address, count or os.cpu_count() or 1
        self._client: Any = None  # Any: Dask has no types here
        try:
            self._dask: Any = import_module("distributed")
        except ModuleNotFoundError as error:
            raise StepError("Dask is not installed; install the extra `scale`, or spread over processes") from error

    def run(self, orders: Sequence[Order], board: Board, _given: Given) -> None:
        """All are handed to the scheduler at once."""
        client = self._connected()
        left = {client.submit(attempted, order.to_json(), pure=False): order for order in orders}
        ended: SimpleQueue[Any] = SimpleQueue()  # of futures
        for future in left:
            future.add_done_callback(ended.put)
        try:
            while left:
                with suppress(Empty):
                    future = ended.get(timeout=LOOK_EVERY_S)
                    self._take(future, left[future])
                    board.finished(left.pop(future))
                board.look(left.values())
        finally:
            client.cancel(list(left))

    def close(self) -> None:
        """Let go of the scheduler, and end a cluster of our own."""
        client, self._client = self._client, None
        if client is None:
            return
        own = client.cluster
        client.close()
        if own is not None:
            own.close()

    def _connected(self) -> Any:  # Any: as above
        if self._client is None:
            try:
                where = self._address or self._own_cluster()
                self._client = self._dask.Client(where, timeout=CONNECT_S, set_as_default=False)
            except (OSError, TimeoutError, ValueError) as error:
                raise StepError(
                    f"no Dask scheduler answers at {self._address or 'this machine'} ({error}); start one, or spread "
                    "over processes"
                ) from error
        return self._client

    def _own_cluster(self) -> Any:  # Any: as above
        with import_module("dask").config.set({"distributed.scheduler.allowed-failures": ATTEMPTS - 1}):
            return self._dask.LocalCluster(
                n_workers=self._count, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
            )

    def _take(self, future: Any, order: Order) -> None:  # Any: a future
        if future.status in GONE:
            raise StepError(f"job {order.name}: the Dask scheduler is gone; start it and go on with the run")
        error = future.exception() if future.status == "error" else future.result()
        if isinstance(error, self._dask.KilledWorker):
            raise StepError(
                f"job {order.name}: its worker died {error.allowed_failures + 1} times, the last at "
                f"{error.last_worker.address}; is there enough memory?"
            ) from error
        if future.status == "error":
            raise StepError(
                f"job {order.name} could not be begun by a worker ({type(error).__name__}: {error}); workers need this "
                "package, the same version"
            ) from error
        if error is not None:
            raise error
