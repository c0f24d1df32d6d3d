"""How far a set of jobs is, as one share and one line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from flows.spread.job import Order
from flows.spread.work import Report


class Board:
    """Adds up the shares of all jobs and tells when the sum has changed."""

    def __init__(self, orders: Sequence[Order], kept: int, report: Report) -> None:
        self._shares = {order.stem: 0.0 for order in orders}
        self._kept, self._report = kept, report
        self._done: set[str] = set()
        self._told: tuple[float, str] | None = None

    def told(self, order: Order, share: float, what: str) -> None:
        """One job got further."""
        self._shares[order.stem] = share
        self._tell(what)

    def finished(self, order: Order) -> None:
        """One job is done."""
        self._done.add(order.stem)
        self._shares[order.stem] = 1.0
        self._tell("")

    def look(self, running: Iterable[Order]) -> None:
        """Read how far jobs in other processes are."""
        for order in running:
            try:
                share, what = json.loads(order.share.read_text())
            except (OSError, ValueError):
                continue  # nothing told yet, or between two files
            if order.stem not in self._done:
                self.told(order, float(share), str(what))

    def _tell(self, what: str) -> None:
        count = self._kept + len(self._shares)
        share = (self._kept + sum(self._shares.values())) / count
        line = f"{self._kept + len(self._done)} of {count} done" if count > 1 else what or "done"
        if (share, line) != self._told:
            self._told = (share, line)
            self._report(share, line)
