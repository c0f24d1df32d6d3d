"""Small graphs for the compiler's tests, and the proof that a pass changed no result."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from compiler import golden
from compiler.importer import build_graph, read_source
from compiler.ir import Graph
from compiler.passes.base import Pass, PassResult, apply
from compiler.passes.constant_folding import ConstantFolding
from compiler.printer import print_graph


def imported(model: bytes, height: int = 8, width: int = 12) -> Graph:
    """A model after import, before any pass."""
    return build_graph(ConstantFolding().run(read_source(model)).graph, height, width)


def applied(step: Pass, graph: Graph) -> PassResult:
    """Run a pass with its conditions, and check that integer results are the same."""
    result = apply(step, graph)
    frame = np.random.default_rng(5).integers(0, 256, graph.values[graph.input].shape, dtype=np.uint8)
    before, after = golden.run(graph, frame), golden.run(result.graph, frame)
    assert set(before) == set(after)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])
    return result


def assert_text(name: str, text: str) -> None:
    """Compare with ``text/<name>.txt``; ``EDGELOOP_REWRITE_TEXT=1 pytest tests/compiler`` rewrites the files."""
    path = Path(__file__).parent / "text" / f"{name}.txt"
    if os.environ.get("EDGELOOP_REWRITE_TEXT") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def transcript(before: Graph, result: PassResult) -> str:
    """IR in, IR out, what changed and what stayed, as one text."""
    parts = [print_graph(before), print_graph(result.graph)]
    parts += [f"changed: {change}\n" for change in result.changes]
    parts += [f"stays: {edge.producer} -> {edge.consumer}: {edge.reason}\n" for edge in result.unfused]
    return "---- before\n" + parts[0] + "---- after\n" + "".join(parts[1:])
