"""The two in-order queues: which commands of the other queue are known to be done."""

from __future__ import annotations

from compiler.verifier.findings import Report

DMA, COMPUTE = 0, 1


class Queues:
    """Events, and for each queue how far the other one is known to be done."""

    def __init__(self, report: Report, n_prologue: int) -> None:
        self._report = report
        self._n_prologue = n_prologue
        self._events: dict[int, tuple[int, int]] = {}  # event -> (queue, command)
        self._last_event = 0
        self._done = [-1, -1]

    def begin(self, index: int, queue: int, wait: int) -> None:
        """Apply the wait of a command."""
        if index == self._n_prologue:
            self._done = [index - 1, index - 1]  # the prologue is complete before the frame
        if wait == 0:
            return
        if wait not in self._events:
            self._report.add(index, "event", f"waits for event {wait}, which no earlier command signals")
            return
        signaller, command = self._events[wait]
        if signaller != queue:
            self._done[queue] = max(self._done[queue], command)

    def signal(self, index: int, queue: int, event: int) -> None:
        """Apply the event of a command."""
        if event == 0:
            return
        if event <= self._last_event:
            self._report.add(index, "event", f"event {event} does not rise")
        self._last_event = max(self._last_event, event)
        self._events[event] = (queue, index)

    def drain(self, end: int) -> None:
        """END: both queues are done."""
        self._done = [end, end]

    def ordered(self, index: int, queue: int, command: int, what: str) -> None:
        """``command`` of the other queue (-1: none) must be done before this one starts."""
        if command > self._done[queue]:
            self._report.add(index, "wait", f"{what} on the other queue, no wait orders them")
