"""MUL: the product of two maps."""

from __future__ import annotations

from compiler.ir import Graph, Mul
from compiler.operators.command import Command, Constant, describe
from contracts.npu import Op


def fill(command: Command, graph: Graph, step: Mul, constant: Constant) -> None:
    """Operands as those of ADD."""
    command["op"] = Op.MUL
    for prefix, name in (("a", step.a), ("b", step.b), ("c", step.result)):
        describe(command, prefix, graph.values[name])
    command["add_lo"], command["add_hi"] = step.clamp.low, step.clamp.high
