"""Problems for the memory planner's bench and how one of them is solved and checked."""

from __future__ import annotations

from benchmarks.planning.instances import Instance, minimalloc, read_csv
from benchmarks.planning.solving import Solved, solve

__all__ = ["Instance", "Solved", "minimalloc", "read_csv", "solve"]
