"""Time that is left, by what this process needed for its share so far."""

from __future__ import annotations

import time
from collections.abc import Callable

Tell = Callable[[float, str], None]


class Eta:
    """Passes progress on with the time left in its text."""

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._began: tuple[float, float] | None = None

    def __call__(self, share: float, text: str) -> None:
        now = self._clock()
        if self._began is None or share < self._began[1]:
            self._began = (now, share)
        done = share - self._began[1]
        if done > 0:
            left = (now - self._began[0]) / done * (1.0 - share)
            text = f"{text}, {_words(left)} left"
        self._tell(share, text)


def part(tell: Tell | None, begin: float, end: float, name: str) -> Tell:
    """Progress of a piece of work that takes the shares `begin` to `end` of the whole."""

    def told(share: float, text: str = "") -> None:
        if tell is not None:
            tell(begin + (end - begin) * share, f"{name} {text}".strip())

    return told


def _words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
