"""`edgeloop bench rollout`: how fast ten thousand devices obey, and how often releases decide rightly by themselves.

The first part is real time over a real API with light devices. The second runs whole releases of ten thousand devices
in simulated time: reports are drawn as arrays, plan, verdicts and state machine are the product's own. Seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.releasing import deciding, stopping
from edgeloop.figures import Figure

STOPPING = 0.5


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of rollouts."""
    stopped = stopping.figures(lambda share, text: tell(STOPPING * share, text))
    decided = deciding.figures(lambda share, text: tell(STOPPING + (1.0 - STOPPING) * share, text))
    return [*stopped, *decided]
