"""POOL: maximum or average over windows, or over the whole map."""

from __future__ import annotations

from compiler.ir import Graph, Pool
from compiler.operators.command import Command, Constant, describe, requantize
from contracts.npu import Op
from contracts.npu.program import FLAG_GLOBAL


def fill(command: Command, graph: Graph, step: Pool, constant: Constant) -> None:
    """Windows as those of CONV."""
    source, result = graph.values[step.source], graph.values[step.result]
    command["op"], command["mode"] = Op.POOL, step.mode
    command["kh"], command["kw"] = step.kernel
    command["sh"], command["sw"] = step.strides
    command["dh"], command["dw"] = step.dilations
    command["pt"], command["pb"], command["pl"], command["pr"] = step.pads
    command["groups"] = 1
    if step.whole:
        command["flags"] |= FLAG_GLOBAL
    describe(command, "a", source)
    describe(command, "c", result)
    requantize(command, source, result, step.clamp)
