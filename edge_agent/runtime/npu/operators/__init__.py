"""Operations beside convolution, addition and multiplication: each a function from a command to steps.

Invariants: a function reads the operands that it is given and writes its target, nothing else; the arithmetic
is docs/reference/arithmetic.md, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from contracts.npu.program import Op
from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.engines.base import Step
from edge_agent.runtime.npu.operators.base import Operands
from edge_agent.runtime.npu.operators.host import host
from edge_agent.runtime.npu.operators.pool import pool
from edge_agent.runtime.npu.operators.resize import resize
from edge_agent.runtime.npu.operators.table import table

__all__ = ["OPERATORS", "Operands"]

OPERATORS: Mapping[Op, Callable[[Command, Operands], tuple[Step, ...]]] = {
    Op.TABLE: table,
    Op.POOL: pool,
    Op.RESIZE: resize,
    Op.HOST: host,
}
