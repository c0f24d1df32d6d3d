"""What programs keep from frame to frame, for one device.

Bound profiles are shared by all devices of a process, so the states are a device's own: put into the memory before a
frame, taken out behind it. Invariants: before the first frame, and after a reset, a state holds its zero point; a
failed frame leaves the states as they were.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from edge_agent.runtime.npu.bound import BoundProfile
from edge_agent.runtime.npu.engines.base import Bytes
from edge_agent.runtime.npu.limits import LIMITS

Key = tuple[bytes, int]


class States:
    """The states of the programs that a device runs, by content digest and stream."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, dict[str, Bytes]] = OrderedDict()

    def put(self, key: Key, bound: BoundProfile) -> None:
        """Write the states into the memory of a profile."""
        if not bound.states:
            return
        kept = self._kept.get(key)
        if kept is None:
            points = {state.name: state.zero_point for state in bound.profile.states}
            kept = {name: np.full_like(place, points[name]) for name, place in bound.states.items()}
            self._kept[key] = kept
            while len(self._kept) > LIMITS.cached_programs:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        for name, place in bound.states.items():
            np.copyto(place, kept[name])

    def take(self, key: Key, bound: BoundProfile) -> None:
        """Keep what the frame left."""
        for name, place in bound.states.items():
            np.copyto(self._kept[key][name], place)

    def reset(self) -> None:
        """Forget all: the next frame of every program is a first one."""
        self._kept.clear()
