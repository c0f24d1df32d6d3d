"""Legalisation and dead code: IR in, IR out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.errors import InternalError, UnsupportedModel
from compiler.ir import Add, Graph, Join
from compiler.passes.base import apply
from compiler.passes.dead_code import DeadCode
from compiler.passes.legalisation import Legalisation
from tests.compiler.helpers import applied, assert_text, imported, transcript
from tests.compiler.qdq_nets import Net


def mixture() -> Graph:
    """A Relu of the input, a border, an order of channels, and a window that is an output."""
    net = Net()
    value = net.quantize(net.node("Relu", [net.frame], "relu"), 0.02, 120, 4)
    value = net.quantize(net.node("Pad", [value, net.whole("pads", [0, 0, 1, 1, 0, 0, 1, 1])], "padded"), 0.02, 120, 4)
    value = net.quantize(net.node("Gather", [value, net.whole("order", [3, 2, 1, 0])], "turned", axis=1), 0.02, 120, 4)
    bounds = [net.whole(key, [number]) for key, number in (("s", 1), ("e", 3), ("a", 1))]
    return imported(net.done(net.node("Slice", [value, *bounds], "cut"), 0.02, 120, 2))


def test_what_is_left_becomes_tables_convolutions_and_copies() -> None:
    graph = mixture()
    assert_text("legalisation", transcript(graph, applied(Legalisation(), graph)))


def test_a_result_that_nobody_reads_goes_with_what_only_it_read() -> None:
    graph = mixture()
    dead = Add("dead", "relu_dq_q", "relu_dq_q", "nowhere")
    deader = Add("deader", "nowhere", "relu_dq_q", "nothing")
    relu = graph.values["relu_dq_q"]
    values = {**graph.values, **{name: replace(relu, name=name) for name in ("nowhere", "nothing")}}
    graph = replace(graph, values=values, operators=(*graph.operators[:1], dead, deader, *graph.operators[1:]))
    assert_text("dead_code", transcript(graph, applied(DeadCode(), graph)))


def test_an_operand_of_a_join_goes_when_every_slice_leaves_it_out() -> None:
    net = Net()
    both = net.node("Concat", [net.features("a", 4), net.features("b", 4)], "joined", axis=1)
    joined = net.quantize(both, 0.03, 110, 8)
    bounds = [net.whole(key, [number]) for key, number in (("first", 5), ("end", 8), ("axis", 1))]
    graph = imported(net.done(net.node("Sigmoid", [net.node("Slice", [joined, *bounds], "cut")], "f"), 1 / 256, 0, 3))
    result = applied(DeadCode(), graph)
    assert [operator.sources for operator in result.graph.operators if isinstance(operator, Join)] == [
        ("joined_Concat.part1",)
    ]
    assert "a_Conv dropped" in result.changes
    assert "joined_Concat.part0 of joined_Concat left out" in result.changes


def test_a_window_outside_its_map_is_an_internal_error() -> None:
    graph = mixture()
    name = next(name for name, value in graph.values.items() if value.window is not None)
    values = {**graph.values, name: replace(graph.values[name], channels=9)}
    with pytest.raises(InternalError, match="is no window of"):
        apply(Legalisation(), replace(graph, values=values))


def test_an_order_of_more_channels_than_a_convolution_has_is_refused() -> None:
    net = Net(channels=32)
    value = net.quantize(net.node("SpaceToDepth", [net.frame], "deep", blocksize=12), 0.02, 120, 4608)
    value = net.node("DepthToSpace", [value], "turned", blocksize=3, mode="DCR")
    graph = imported(net.done(value, 0.02, 120, 512), 12, 12)
    with pytest.raises(
        UnsupportedModel, match="an order of 4608 channels that folds into no convolution; use up to 4096"
    ):
        apply(Legalisation(), graph)
