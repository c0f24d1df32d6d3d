"""Bounds of the emulated NPU, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NpuLimits:
    """Sizes and counts that one device, and one process full of devices, never exceeds."""

    hang_ms: float = 500.0
    """Simulated time after which the driver gives a hung run up."""

    cached_kernels: int = 512
    """Compiled engine kernels that one process keeps, shared by content."""

    cached_programs: int = 16
    """Bound profiles that one memory keeps."""

    largest_block: int = 16
    """Largest block of a layout that gathers or scatters."""

    cached_index_maps: int = 32
    """Gather index maps that one process keeps."""

    largest_index_map: int = 400_000
    """Elements above which a layout is copied by strides, not gathered by an index map."""

    shared_memories: int = 8
    """Memories that the light devices of one process share."""

    largest_tensor: int = 1 << 28
    """Bytes of one tensor as a command sees it; a repeated layout can ask for more than the memory has."""

    max_commands: int = 65_536
    """Commands in one profile's stream."""

    traced_commands: int = 100_000
    """Commands in one exported kernel trace."""


LIMITS = NpuLimits()
