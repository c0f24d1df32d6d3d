"""Who runs the parts of a sharded scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Executor(Protocol):
    """Calls a function with each item, anywhere, and yields the outcomes in the order of the items.

    The function is importable by name, items and outcomes can be pickled, and a call may be repeated (it changes
    nothing). An exception of a call ends the iteration. Items are taken when they can be sent, not all at once.
    """

    def map(self, function: Callable[[Item], Outcome], items: Iterable[Item]) -> Iterator[Outcome]: ...


class Here:
    """Runs one part after another in this process."""

    def map(self, function: Callable[[Item], Outcome], items: Iterable[Item]) -> Iterator[Outcome]:
        return map(function, items)
