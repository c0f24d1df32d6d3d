"""Table fusion: IR in, IR out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.errors import InternalError
from compiler.ir import Graph, Table
from compiler.passes.base import apply
from compiler.passes.clamp_folding import ClampFolding
from compiler.passes.table_fusion import TableFusion
from tests.compiler.helpers import applied, assert_text, imported, transcript
from tests.compiler.qdq_nets import Net


def chain(*, expose: bool = False) -> Graph:
    """Another scale, PRelu by channel, Tanh, Clip."""
    net = Net()
    value = net.quantize(net.frame, 0.03, 100, 4)
    slopes = net.floats("slopes", np.linspace(-0.2, 0.6, 4).reshape(4, 1, 1))
    value = net.quantize(net.node("PRelu", [value, slopes], "p"), 0.02, 110, 4, output="kept" if expose else None)
    value = net.quantize(net.node("Tanh", [value], "t"), 1 / 128, 128, 4)
    bounds = net.floats("low", -0.5), net.floats("high", 0.9)
    net.quantize(net.node("Clip", [value, *bounds], "c"), 1 / 128, 128, 4, output="y")
    shape = [1, 4, "h", "w"]
    return imported(net.model({"x": shape}, {"y": shape, "kept": shape} if expose else {"y": shape}))


def test_a_chain_of_tables_becomes_one_table_for_each_channel() -> None:
    graph = applied(ClampFolding(), chain()).graph
    result = applied(TableFusion(), graph)
    assert_text("table_fusion", transcript(graph, result))
    tables = [op for op in result.graph.operators if isinstance(op, Table)]
    assert [len(table.tables) for table in tables] == [4]


def test_a_table_that_is_also_an_output_stays_and_says_why() -> None:
    result = applied(TableFusion(), chain(expose=True))
    assert [edge.reason for edge in result.unfused] == ["kept_q has another reader"]


def test_tables_of_another_shape_are_an_internal_error() -> None:
    graph = chain()
    broken = [
        replace(op, tables=op.tables[:, :100]) if isinstance(op, Table) and len(op.tables) > 1 else op
        for op in graph.operators
    ]
    with pytest.raises(InternalError, match=r"precondition: p_PRelu has tables of shape \(4, 100\)"):
        apply(TableFusion(), graph.with_operators(broken))
