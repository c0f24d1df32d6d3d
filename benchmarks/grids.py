"""`edgeloop bench grids`: every case of the grids against ONNX Runtime's integer operators, and on the emulated device.

Golden interpreter against ONNX Runtime, compiled program on the device against the golden interpreter; a mismatch is
a byte. Nothing is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from benchmarks.gridding import convolutions, nodes, pairs, shuffles
from benchmarks.gridding.case import Count, total
from edgeloop.figures import Figure, exactly

Tell = Callable[[float, str], None]


def bench(tell: Tell) -> Sequence[Figure]:
    """All grids."""
    parts: list[tuple[str, Callable[[], Count]]] = [
        ("shuffles", lambda: total(shuffles.cases())),
        ("convolutions", lambda: total(convolutions.cases())),
        ("add", lambda: pairs.total("QLinearAdd")),
        ("add_turned", lambda: pairs.total("QLinearAdd", turned=True)),
        ("mul", lambda: pairs.total("QLinearMul")),
    ]
    figures: list[Figure] = []
    for index, (name, count) in enumerate(parts):
        tell(0.8 * index / len(parts), name)
        figures += figures_of(name, count())
    tell(0.8, "onnx node tests")
    return [*figures, *node_figures(nodes.scope())]


def figures_of(name: str, count: Count) -> Iterator[Figure]:
    """Cases, bytes and mismatches of one grid."""
    yield Figure(f"grids.{name}.cases", count.cases, "", "printed", ok=True)
    yield Figure(f"grids.{name}.bytes", count.compared, "B", "printed", ok=True)
    if count.allowed:
        yield Figure(f"grids.{name}.one_step_on_ties", count.allowed, "B", "printed", ok=True)
    yield exactly(f"grids.{name}.mismatches", count.wrong, "B", 0)


def node_figures(scope: nodes.Scope) -> Iterator[Figure]:
    """The onnx node tests."""
    yield Figure("grids.onnx_nodes.in_scope", scope.count.cases, "", "printed", ok=True)
    yield Figure("grids.onnx_nodes.refused", len(scope.refused), "", "printed, each with one error", ok=True)
    yield Figure("grids.onnx_nodes.one_step_on_ties", scope.count.allowed, "B", "printed", ok=True)
    yield exactly("grids.onnx_nodes.mismatches", scope.count.wrong, "B", 0)
