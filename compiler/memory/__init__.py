"""Static memory planning: live ranges, placement, and what to do when SRAM is short."""

from __future__ import annotations

from compiler.memory.buffers import Buffer
from compiler.memory.plan import MemoryPlan, plan_memory

__all__ = ["Buffer", "MemoryPlan", "plan_memory"]
