"""What programs keep from frame to frame, for one device.

Bound profiles are shared by all devices of a process, so the states are a device's own: put into the memory before a
frame, taken out behind it. Invariants: before the first frame, and after a reset, a state holds its zero point; a
failed frame leaves the states as they were.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from contracts.npu.program import Profile
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

    def carry(self, before: Key, after: Key, *, same: bool) -> None:
        """Move the states of `before` to `after` when both keep the `same`; else `after` begins anew."""
        found = self._kept.pop(before, None)
        self._kept.pop(after, None)
        if found is not None and same:
            self._kept[after] = found

    def reset(self) -> None:
        """Forget all: the next frame of every program is a first one."""
        self._kept.clear()


def kept(profile: Profile) -> dict[str, tuple[int, int, int, float, int]]:
    """Return what a profile keeps, by name: equal for programs that can go on with each other's states."""
    return {s.name: (s.height, s.width, s.channels, s.scale, s.zero_point) for s in profile.states}
