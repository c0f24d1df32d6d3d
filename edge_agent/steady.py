"""The interpreter as a frame loop needs it: no long collections, no long waits for the interpreter lock.

Two things of CPython stop a frame for longer than a change of bundle may cost. A full collection walks through every
object of the process, 45 ms with the agent's modules loaded; objects that live as long as the process are taken out
of its sight. And a thread that wants the interpreter lock waits 5 ms before the holder is asked to hand it over, at
each of the dozens of calls of a frame that let go of it. Sources: `gc.freeze`, `sys.setswitchinterval`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_S = 0.0002
"""The frame loop gets the lock back after this; more hand-overs cost under one per cent of two busy threads."""


@contextmanager
def steady() -> Iterator[None]:
    """Run a frame loop inside of this; all that lives as long as it should be made before."""
    before = sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
        gc.unfreeze()
