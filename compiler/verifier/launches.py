"""Launches and dispatches: a kernel is launched once a frame, and dispatched when a later stripe enters it."""

from __future__ import annotations

from collections.abc import Hashable

from compiler.verifier.commands import Command
from compiler.verifier.findings import Report


class Launches:
    """Follows the flags of the compute queue."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._current = -1
        self._launched: set[int] = set()
        self._entered: dict[Hashable, int] = {}
        self.again = False
        """Whether the kernel at work was entered by a dispatch."""

    def command(self, index: int, command: Command) -> None:
        """A command of the compute queue enters a kernel or goes on in it."""
        kernel = command.kernel
        known = kernel in self._launched
        if command.launch and command.dispatch:
            self._report.add(index, "launch", f"kernel {kernel} is launched and dispatched by one command")
        elif command.launch and known:
            self._report.add(index, "launch", f"kernel {kernel} is launched twice")
        elif command.dispatch and not known:
            self._report.add(index, "launch", f"kernel {kernel} is dispatched before its launch")
        elif not command.launch and not command.dispatch and kernel != self._current:
            self._report.add(index, "launch", f"kernel {kernel} is entered without a launch or dispatch")
        if command.launch or command.dispatch or kernel != self._current:
            self._entered = {}
            self.again = command.dispatch
        self._current = kernel
        self._launched.add(kernel)

    def stripe(self, index: int, name: Hashable, row: int) -> None:
        """The command makes rows from ``row`` of an operation; two stripes of it are two entries."""
        if self._entered.setdefault(name, row) != row:
            self._entered[name] = row
            self._report.add(index, "launch", "a later stripe enters its kernel without a dispatch")
