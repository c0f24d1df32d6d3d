"""Space-to-Depth sinking: IR in, IR out."""

from __future__ import annotations

from compiler.passes.space_to_depth_sinking import SpaceToDepthSinking
from tests.compiler.helpers import applied, assert_text, imported, transcript
from tests.support.models import QdqBuilder, vsr_qdq


def test_space_to_depth_becomes_a_gather_of_the_head() -> None:
    graph = imported(vsr_qdq(channels=4, mid=4, blocks=0))
    assert_text("space_to_depth_sinking", transcript(graph, applied(SpaceToDepthSinking(), graph)))


def test_a_space_to_depth_that_an_addition_reads_stays_and_says_why() -> None:
    b = QdqBuilder(0)
    value = b.quantize("x", 1 / 255, 0, 3)
    b.node("SpaceToDepth", [value], "s2d", blocksize=2)
    packed = b.quantize("s2d", 1 / 255, 0, 12)
    b.conv(packed, "conv", 12)
    inner = b.quantize("conv", 0.02, 100, 12)
    b.node("Add", [inner, packed], "sum")
    b.quantize("sum", 0.02, 100, 12, output="y")
    graph = imported(b.model({"x": [1, 3, "h", "w"]}, {"y": [1, 12, "h2", "w2"]}))
    result = applied(SpaceToDepthSinking(), graph)
    assert result.changes == ()
    assert [edge.reason for edge in result.unfused] == ["sum_Add is no convolution"]
