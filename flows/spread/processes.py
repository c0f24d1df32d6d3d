"""A few processes beside the flow. One that dies is replaced and its job begun again; all end with the flow.

`concurrent.futures` gives up all jobs when one worker dies and does not say under which; here each worker has a pipe of
its own.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from flows.errors import StepError
from flows.spread.board import Board
from flows.spread.job import Order
from flows.spread.runner import ATTEMPTS, Given
from flows.spread.work import attempted

LOOK_EVERY_S = 0.5
END_WITHIN_S = 5.0
_SPAWN = get_context("spawn")


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    order: Order | None = None


class Processes:
    """At most `count` workers, started when there is work for them."""

    apart = True

    def __init__(self, count: int) -> None:
        self._count = count
        self._workers: list[_Worker] = []

    def run(self, orders: Sequence[Order], board: Board, _given: Given) -> None:
        """Whoever is free takes the next. Raises StepError for a job whose workers died `ATTEMPTS` times."""
        waiting, deaths = deque(orders), Counter[str]()
        try:
            while waiting or self._busy():
                self._hand_out(waiting)
                ready = wait([worker.pipe for worker in self._busy()], LOOK_EVERY_S)
                for worker in [worker for worker in self._busy() if worker.pipe in ready]:
                    self._hear(worker, waiting, deaths, board)
                board.look([worker.order for worker in self._busy() if worker.order is not None])
        except BaseException:
            self.close()  # what they do now is wanted no more; trainings have checkpoints
            raise

    def close(self) -> None:
        """Idle workers leave by themselves, busy ones are ended."""
        for worker in self._workers:
            worker.pipe.close()
            if worker.order is not None:
                worker.process.kill()
        for worker in self._workers:
            worker.process.join(END_WITHIN_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers.clear()

    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.order is not None]

    def _hand_out(self, waiting: deque[Order]) -> None:
        while waiting and len(self._busy()) < self._count:
            idle = next((worker for worker in self._workers if worker.order is None), None)
            worker = idle or _started()
            if idle is None:
                self._workers.append(worker)
            worker.order = waiting.popleft()
            try:
                worker.pipe.send(worker.order.to_json())
            except OSError:
                return  # it died idle: hearing from it tells

    def _hear(self, worker: _Worker, waiting: deque[Order], deaths: Counter[str], board: Board) -> None:
        order = worker.order
        assert order is not None
        try:
            error = worker.pipe.recv()
        except (EOFError, OSError):
            self._bury(worker)
            deaths[order.stem] += 1
            if deaths[order.stem] >= ATTEMPTS:
                raise StepError(
                    f"job {order.name}: its worker died {ATTEMPTS} times, the last by {_end(worker.process)}; is there "
                    "enough memory? Spread over fewer processes, or run it here"
                ) from None
            waiting.appendleft(order)
            return
        worker.order = None
        if error is not None:
            raise error
        board.finished(order)

    def _bury(self, worker: _Worker) -> None:
        worker.pipe.close()
        worker.process.kill()
        worker.process.join()
        self._workers.remove(worker)


def _started() -> _Worker:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(theirs,), name="edgeloop-spread", daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _serve(pipe: Connection) -> None:
    """Main function of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the flow is told, and ends its workers
    threading.Thread(target=_end_with_the_flow, daemon=True).start()
    while True:
        try:
            text = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(attempted(text))


def _end_with_the_flow() -> None:
    """A flow that was killed cannot end its workers; they must not go on writing where its successor writes."""
    flow = parent_process()
    assert flow is not None
    flow.join()
    os._exit(1)


def _end(process: BaseProcess) -> str:
    code = process.exitcode
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
