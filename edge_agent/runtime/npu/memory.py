"""The memories of one emulated NPU: an SRAM arena of exactly the target's size, and DDR for each program.

Invariants: the arena is one array and never moves, so that kernels may be bound to addresses in it; only the
profile named by `resident` has its constants in the arena, and whoever runs another one loads its constants
first. Pages that no program touches cost the host nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock, RLock

import numpy as np
from numpy.typing import NDArray

from contracts.npu.spec import NpuSpec
from edge_agent.runtime.npu.limits import LIMITS

ALIGNMENT = 128


def aligned_zeros(size: int) -> NDArray[np.uint8]:
    """Return `size` zero bytes that start at a multiple of 128."""
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


class Memory:
    """One NPU's SRAM, and the lock that a run holds."""

    def __init__(self, spec: NpuSpec) -> None:
        self.spec = spec
        self.sram = aligned_zeros(spec.sram_bytes)
        self.lock = RLock()
        self.resident: object | None = None


_shared: OrderedDict[str, Memory] = OrderedDict()
_shared_lock = Lock()


def shared_memory(spec: NpuSpec) -> Memory:
    """Return the memory that all light devices of this target in this process take turns in."""
    with _shared_lock:
        memory = _shared.get(spec.name)
        if memory is None or memory.spec is not spec:
            memory = _shared[spec.name] = Memory(spec)
        _shared.move_to_end(spec.name)
        while len(_shared) > LIMITS.shared_memories:
            _shared.popitem(last=False)
        return memory
