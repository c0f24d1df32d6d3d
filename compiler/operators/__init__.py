"""Operators beyond convolution and addition: their command fields, their constants, where they run, and the manual.

``fill(command, graph, step, constant)`` writes everything but the regions; ``constant(name)`` is the SRAM offset of
the step's ``constant_bytes``. ``python -m compiler.operators --write`` makes ``docs/reference/operators.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compiler.ir import Graph, Host, Mul, Pool, Resize, Simple, Table
from compiler.operators import host, multiply, pool, resize, table
from compiler.operators.command import Command, Constant, Filler
from compiler.operators.placement import Placed, Placement, place_operators, unsupported

__all__ = ["Command", "Constant", "Placed", "Placement", "constant_bytes", "fill", "place_operators", "unsupported"]

_FILL: Mapping[type, Callable[..., None]] = {
    Table: table.fill,
    Mul: multiply.fill,
    Pool: pool.fill,
    Resize: resize.fill,
    Host: host.fill,
}


def fill(command: Command, graph: Graph, step: Simple, constant: Constant) -> None:
    """Operation and parameters of one command; KeyError for operators that have none of their own here."""
    filler: Filler = _FILL[type(step)]
    filler(command, graph, step, constant)


def constant_bytes(graph: Graph, step: Simple) -> bytes:
    """What ``weights_offset`` points at besides convolution weights; empty when nothing."""
    if isinstance(step, Table):
        return table.constant_bytes(step)
    if isinstance(step, Host):
        return host.constant_bytes(graph, step)
    return b""
