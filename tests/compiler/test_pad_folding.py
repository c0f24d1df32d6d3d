"""Pad folding: IR in, IR out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.errors import InternalError
from compiler.ir import Graph
from compiler.passes.base import apply
from compiler.passes.pad_folding import PadFolding
from tests.compiler.helpers import applied, assert_text, imported, transcript
from tests.compiler.qdq_nets import Net


def padded(reader: str) -> Graph:
    net = Net()
    value = net.node("Pad", [net.frame, net.whole("pads", [0, 0, 1, 2, 0, 0, 3, 0])], "padded")
    value = net.quantize(value, 0.02, 120, 4)
    if reader == "conv":
        return imported(net.done(net.conv(value, "last", 4, pads=(0, 1, 0, 2))))
    return imported(net.done(net.node("MaxPool", [value], "last", kernel_shape=[2, 2]), 0.02, 120))


def test_a_pad_becomes_pads_of_the_convolution_that_reads_it() -> None:
    graph = padded("conv")
    assert_text("pad_folding", transcript(graph, applied(PadFolding(), graph)))


def test_a_pad_before_a_maximum_stays_and_says_why() -> None:
    result = applied(PadFolding(), padded("max"))
    assert [edge.reason for edge in result.unfused] == ["last_MaxPool has no pads of that meaning"]


def test_a_pad_that_changes_the_scale_is_an_internal_error() -> None:
    graph = padded("conv")
    values = {**graph.values, "padded_dq_q": replace(graph.values["padded_dq_q"], scale=0.5)}
    with pytest.raises(InternalError, match="precondition: padded_Pad changes the quantisation"):
        apply(PadFolding(), replace(graph, values=values))
