"""Graph to kernels: what runs as one launch, in which order, under which name.

Names are stable and readable (``head``, ``block3``, ``tail``): traces, fault rules and perf comparisons use
them. Invariants: kernels keep the graph's order; every operator with a command is in exactly one kernel; names are
unique. Windows (Concat, Split, Slice) cost nothing and are in no kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from compiler.errors import UnsupportedModel
from compiler.ir import STRUCTURAL, Add, Block, Conv, Graph, Host, Move, Mul, Operator, Pool, Resize, Table
from contracts.npu import Layout

Step = Conv | Add | Move | Table | Mul | Pool | Resize | Host


@dataclass(frozen=True)
class Kernel:
    """One launch; each step becomes one command."""

    name: str
    steps: tuple[Step, ...]

    @property
    def origin(self) -> tuple[str, ...]:
        """The ONNX nodes that this kernel computes."""
        return tuple(node for step in self.steps for node in step.origin)


@dataclass(frozen=True)
class Schedule:
    """Kernels in execution order over one profile's graph."""

    graph: Graph
    kernels: tuple[Kernel, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in order; their index is the planner's time."""
        return tuple(step for kernel in self.kernels for step in kernel.steps)


def schedule(graph: Graph) -> Schedule:
    """One kernel for each operator or block; raises UnsupportedModel for one that has no command."""
    counts: Counter[str] = Counter()
    kernels: list[Kernel] = []
    for operator in graph.operators:
        if isinstance(operator, STRUCTURAL):
            continue
        kind = _kind(operator)
        name = kind if kind in ("head", "tail") and counts[kind] == 0 else f"{kind}{counts[kind]}"
        counts[kind] += 1
        kernels.append(Kernel(name, _steps(operator)))
    return Schedule(graph, tuple(kernels))


_NAMES: Mapping[type, str] = {
    Add: "add",
    Table: "table",
    Mul: "multiply",
    Pool: "pool",
    Resize: "resize",
    Host: "host",
}


def _kind(operator: Operator) -> str:
    if isinstance(operator, Block):
        return "block"
    if isinstance(operator, Conv):
        if operator.write.layout == Layout.D2S:
            return "tail"
        return "head" if operator.read.layout == Layout.S2D else "conv"
    return _NAMES.get(type(operator), "shuffle")


def _steps(operator: Operator) -> tuple[Step, ...]:
    if isinstance(operator, Block):
        return operator.body
    if isinstance(operator, Step):
        return (operator,)
    reason = f"a {type(operator).__name__} that no pass made into a command"
    raise UnsupportedModel(operator.name, reason, "report this model")
