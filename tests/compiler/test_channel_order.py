"""Channel order: IR in, IR out."""

from __future__ import annotations

import numpy as np

from compiler.ir import Graph, Permute
from compiler.passes.channel_order import ChannelOrder
from tests.compiler.helpers import applied, assert_text, imported, transcript
from tests.compiler.qdq_nets import Net


def shuffled(operator: str, mode: str, *, expose: bool = False, relu: bool = False) -> Graph:
    net = Net()
    value = net.conv(net.frame, "a", 8)
    value = net.quantize(net.node("Relu", [value], "relu") if relu else value, 0.03, 110, 8, output="kept")
    moved = net.node(operator, [value], "moved", blocksize=2, mode=mode)
    channels = 2 if operator == "DepthToSpace" else 32
    net.channels[moved], net.scales[moved] = channels, np.float32(0.03)
    net.quantize(net.conv(moved, "last", 4), 0.03, 100, 4, output="y")
    shape = [1, 4, "h", "w"]
    return imported(net.model({"x": shape}, {"y": shape, "kept": shape} if expose else {"y": shape}))


def test_dcr_order_goes_into_the_convolution_before() -> None:
    graph = shuffled("DepthToSpace", "DCR", relu=True)
    assert_text("channel_order", transcript(graph, applied(ChannelOrder(), graph)))


def test_pixel_unshuffle_order_goes_into_the_convolution_behind() -> None:
    graph = shuffled("SpaceToDepth", "CRD", expose=True)
    result = applied(ChannelOrder(), graph)
    assert result.changes == ("moved_SpaceToDepth.order folded",)
    assert not any(isinstance(op, Permute) for op in result.graph.operators)


def test_an_order_behind_a_value_that_others_read_stays_and_says_why() -> None:
    result = applied(ChannelOrder(), shuffled("DepthToSpace", "DCR", expose=True))
    assert [edge.reason for edge in result.unfused] == [
        "kept_q has another reader; moved_DepthToSpace is no plain convolution of all channels"
    ]
