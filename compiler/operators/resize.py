"""RESIZE: nearest or linear, positions from the extents of src and dst."""

from __future__ import annotations

from compiler.ir import OPEN, Graph, Resize
from compiler.operators.command import Command, Constant, requantize
from contracts.npu import Op


def fill(command: Command, graph: Graph, step: Resize, constant: Constant) -> None:
    """``mode`` linear, ``kh`` transformation, ``kw`` rounding."""
    command["op"], command["mode"] = Op.RESIZE, int(step.linear)
    command["kh"], command["kw"] = step.transformation, step.rounding
    requantize(command, graph.values[step.source], graph.values[step.result], OPEN)
