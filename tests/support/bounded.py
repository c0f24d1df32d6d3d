"""Tests of what must not stop for ever: they end, and are red, also when it does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, *works: Callable[[], T]) -> list[T]:
    """Run every work in a thread of its own at the same time; their results in order.

    Raises the first error of a work. One that is not through after `seconds` fails the test and is left behind.
    """
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(place: int, work: Callable[[], T]) -> None:
        try:
            results[place] = work()
        except BaseException as error:  # told to the test, whatever it is
            errors.append(error)

    threads = [threading.Thread(target=run, args=each, daemon=True) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    if errors:
        raise errors[0]
    stuck = sum(thread.is_alive() for thread in threads)
    assert not stuck, f"{stuck} of {len(threads)} did not end within {seconds:g} s: they wait for each other"
    return [results[place] for place in range(len(works))]
