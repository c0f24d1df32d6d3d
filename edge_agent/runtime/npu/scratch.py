"""Scratch that stands for the hardware's gather unit and accumulators, shared by all commands of a profile.

Commands run one at a time, so two never need the same scratch together; sharing keeps it in the host's cache
and keeps a program of thousands of stripes small. Invariant: within one command every use has its own role.
"""

from __future__ import annotations

import math

import numpy as np

from edge_agent.runtime.npu.engines.base import Bytes


class Scratch:
    """Arrays by role and size; what an array holds is undefined when a command starts."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], Bytes] = {}

    def take(self, role: str, shape: tuple[int, ...]) -> Bytes:
        """Return a contiguous array of `shape` for this use within the command."""
        size = math.prod(shape)
        room = 1 << max(size - 1, 0).bit_length()
        key = (role, room)
        if key not in self._kept:
            self._kept[key] = np.empty(room, np.uint8)
        return self._kept[key][:size].reshape(shape)
