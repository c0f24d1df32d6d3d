"""Whoever runs orders: in this process, one after the other; others are `processes` and `cluster`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from flows.spread.board import Board
from flows.spread.job import Order
from flows.spread.work import do

ATTEMPTS = 3
"""How often a job is begun whose worker dies under it."""

Given = Mapping[str, Mapping[str, object]]
"""Objects by stem of the order that takes them."""


class Runner(Protocol):
    """Runs orders; each leaves its result. `apart` says whether other processes do."""

    apart: bool

    def run(self, orders: Sequence[Order], board: Board, given: Given) -> None:
        """Return when all are done. Raises the first error of a job, or StepError naming one that cannot be done."""
        ...

    def close(self) -> None:
        """End whatever was started."""
        ...


class Here:
    """This process."""

    apart = False

    def run(self, orders: Sequence[Order], board: Board, given: Given) -> None:
        """In order."""
        for order in orders:
            do(order, partial(board.told, order), given.get(order.stem))
            board.finished(order)

    def close(self) -> None:
        """Nothing was started."""
