"""TABLE: each byte through 256 bytes."""

from __future__ import annotations

from compiler.ir import OPEN, Graph, Table
from compiler.operators.command import Command, Constant, requantize
from contracts.npu import Op
from contracts.npu.program import FLAG_PER_CHANNEL


def fill(command: Command, graph: Graph, step: Table, constant: Constant) -> None:
    """The table's place; one for each channel when there are several."""
    source, result = graph.values[step.source], graph.values[step.result]
    command["op"], command["weights_offset"] = Op.TABLE, constant(step.name)
    if len(step.tables) > 1:
        command["flags"] |= FLAG_PER_CHANNEL
    requantize(command, source, result, OPEN)


def constant_bytes(step: Table) -> bytes:
    """The table or tables."""
    return step.tables.tobytes()
