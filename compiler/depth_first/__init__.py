"""Depth-first execution: stripes of rows across kernels, so that maps never exist as a whole."""

from __future__ import annotations

from compiler.depth_first.layout import Choice, Cut, Layout
from compiler.depth_first.planning import DepthFirst, plan_depth_first

__all__ = ["Choice", "Cut", "DepthFirst", "Layout", "plan_depth_first"]
