"""Residual fusion: IR in, IR out."""

from __future__ import annotations

from compiler.ir import Block, Conv
from compiler.passes.clamp_folding import ClampFolding
from compiler.passes.residual_fusion import ResidualFusion
from tests.compiler.helpers import applied, assert_text, imported, transcript
from tests.support.models import QdqBuilder, vsr_qdq


def test_a_residual_block_becomes_one_kernel() -> None:
    graph = applied(ClampFolding(), imported(vsr_qdq(channels=4, mid=4, blocks=1))).graph
    assert_text("residual_fusion", transcript(graph, applied(ResidualFusion(), graph)))


def test_both_orders_of_the_addition_fuse_alike() -> None:
    blocks = []
    for flipped in (False, True):
        graph = applied(ClampFolding(), imported(one_block(flipped=flipped))).graph
        fused = applied(ResidualFusion(), graph).graph
        blocks += [operator for operator in fused.operators if isinstance(operator, Block)]
    assert len(blocks) == 2


def test_an_addition_whose_operand_is_also_an_output_stays_and_says_why() -> None:
    graph = applied(ClampFolding(), imported(one_block(expose=True))).graph
    result = applied(ResidualFusion(), graph)
    assert [edge.reason for edge in result.unfused] == ["inner_q has another reader"]


def test_a_fused_subtraction_still_subtracts() -> None:
    graph = applied(ClampFolding(), imported(difference())).graph
    fused = applied(ResidualFusion(), graph).graph
    (conv,) = fused.operators
    assert isinstance(conv, Conv)
    assert conv.residual is not None
    assert conv.residual.subtract


def difference() -> bytes:
    b = QdqBuilder(0)
    frame = b.quantize("x", 0.02, 120, 4)
    b.conv(frame, "a", 4)
    b.node("Sub", [b.quantize("a", 0.03, 110, 4), frame], "less")
    b.quantize("less", 0.05, 100, 4, output="y")
    shape = [1, 4, "h", "w"]
    return b.model({"x": shape}, {"y": shape})


def one_block(*, flipped: bool = False, expose: bool = False) -> bytes:
    b = QdqBuilder(0)
    trunk = b.quantize("x", 1 / 255, 0, 4)
    b.conv(trunk, "head", 4)
    trunk = b.quantize("head", 0.02, 90, 4)
    b.conv(trunk, "a", 4)
    middle = b.quantize(b.node("Relu", ["a"], "relu"), 0.02, 0, 4)
    b.conv(middle, "b", 4)
    inner = b.quantize("b", 0.02, 100, 4, output="inner")
    b.node("Add", [trunk, inner] if flipped else [inner, trunk], "sum")
    b.quantize("sum", 0.03, 100, 4, output="y")
    shape = [1, 4, "h", "w"]
    return b.model({"x": shape}, {"y": shape, "inner": shape} if expose else {"y": shape})
