"""Does the oldest driver in the field run this model, after all that could be placed elsewhere was? Asked when a
version is given, before anything is lowered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compiler.errors import CompileError, UnsupportedModel
from compiler.ir import Graph
from compiler.operators import unsupported
from contracts.npu import load_spec


def check_driver(version: str, targets: Sequence[str], graphs: Iterable[Graph]) -> None:
    """Raise CompileError when a target knows no such driver, or when it lacks an operator of a fused graph."""
    for target in targets:
        spec = load_spec(target)
        if not spec.supports_driver(version):
            span = f"{spec.driver_minimum} to {spec.driver_maximum}"
            raise CompileError("driver", f"{target} is run by drivers {span}, {version} is none of them", "give one")
    for graph in graphs:
        lacking = unsupported(graph, version)
        if lacking:
            node, _, reason = lacking[0].partition(": ")
            more = f" (and {len(lacking) - 1} more operators)" if len(lacking) > 1 else ""
            remedy = "nothing else can run it: ask for a newer driver, or exchange the operator"
            raise UnsupportedModel(node, f"{reason}{more}", remedy)
