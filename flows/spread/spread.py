"""Run independent jobs and give their results in order. What was done before is kept and not asked for again."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from flows.errors import FlowError, StorageError
from flows.run_folder import Json
from flows.spread.board import Board
from flows.spread.cluster import Cluster
from flows.spread.job import Job, Order, order_for
from flows.spread.processes import Processes
from flows.spread.runner import Given, Here, Runner
from flows.spread.work import Report, result_of

HERE = "here"
KINDS = "here, processes, processes:4, dask or dask:tcp://host:8786"


@dataclass(frozen=True)
class Kind:
    """A kind of spreading as it is asked for. `count` is a number of processes, None for one a core."""

    name: str = HERE
    count: int | None = None
    address: str = ""

    @staticmethod
    def parse(text: str) -> Kind:
        """Read `here`, `processes[:n]` or `dask[:address]`. Raises FlowError."""
        name, _, rest = text.partition(":")
        if text == HERE:
            return Kind()
        if name == "processes" and ((not rest and text == name) or (rest.isdecimal() and int(rest) > 0)):
            return Kind(name, int(rest) if rest else None)
        if name == "dask" and (text == name or "://" in rest):
            return Kind(name, address=rest)
        raise FlowError(f"spread {text!r} is no way to spread jobs; write {KINDS}")

    def runner(self) -> Runner:
        """Whoever runs jobs so; nothing is started yet. Raises FlowError when it is not installed."""
        if self.name == "processes":
            return Processes(self.count or os.cpu_count() or 1)
        return Cluster(self.address) if self.name == "dask" else Here()


class Spread:
    """One way to run jobs; enter it to end what it starts."""

    def __init__(self, runner: Runner | None = None) -> None:
        self._runner: Runner = runner or Here()

    @property
    def apart(self) -> bool:
        """Whether jobs run beside each other, so that asking for many at once pays."""
        return self._runner.apart

    def run(self, folder: Path, jobs: Sequence[Job], report: Report) -> list[Json]:
        """The jobs' results in the jobs' order; results lie in `folder`, where those done before are found.

        Jobs that are alike are done once. Raises the error of the first job that fails; those that are done are kept.
        """
        folder.mkdir(parents=True, exist_ok=True)
        orders = [_ordered(job, folder) for job in jobs]
        given: Given = {order.stem: job.given for order, job in zip(orders, jobs, strict=True) if job.given}
        if given and self.apart:
            raise StorageError(
                f"no room left below {folder} for what the jobs' workers read; free some space and start the same run "
                "again, or run the jobs here"
            )
        distinct = list({order.stem: order for order in orders}.values())
        wanted = [order for order in distinct if result_of(order) is None]
        if wanted:
            self._runner.run(wanted, Board(wanted, len(distinct) - len(wanted), report), given)
        return [_found(order) for order in orders]

    def __enter__(self) -> Spread:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._runner.close()


def _ordered(job: Job, folder: Path) -> Order:
    order = order_for(job, folder)
    return replace(order, settings={**order.settings, "given": uuid.uuid4().hex}) if job.given else order


def _found(order: Order) -> Json:
    value = result_of(order)
    if value is None:
        raise FlowError(f"job {order.name} ended and left no {order.result}; do flow and workers see the same folder?")
    return value
