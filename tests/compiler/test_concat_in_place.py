"""Concat in place: IR in, IR out."""

from __future__ import annotations

from compiler.ir import Graph, Move
from compiler.passes.concat_in_place import ConcatInPlace
from compiler.passes.pipeline import fuse
from tests.compiler.helpers import applied, assert_text, imported, transcript
from tests.compiler.qdq_nets import Net, concat_of_a_concat, concat_with_the_input_and_itself


def temporal() -> Graph:
    """History and current features of one input joined before a convolution."""
    net = Net(channels=6)
    frames = []
    for name, first in (("now", 0), ("before", 3)):
        bounds = [net.whole(f"{name}_{k}", [v]) for k, v in (("s", first), ("e", first + 3), ("a", 1))]
        part = net.quantize(net.node("Slice", [net.frame, *bounds], f"{name}_frame"), 0.02, 120, 3)
        frames.append(net.quantize(net.conv(part, f"{name}_features", 4), 0.03, 110, 4))
    joined = net.quantize(net.node("Concat", frames, "joined", axis=1), 0.03, 110, 8)
    return imported(net.done(net.conv(joined, "fuse", 4)))


def test_history_and_current_features_are_made_in_the_joined_map() -> None:
    graph = temporal()
    assert_text("concat_in_place", transcript(graph, applied(ConcatInPlace(), graph)))


def test_temporal_concat_and_convolution_store_no_copy() -> None:
    final = fuse(temporal()).graph
    assert not [op for op in final.operators if isinstance(op, Move)]


def test_an_operand_joined_twice_is_copied_once_and_the_report_says_why() -> None:
    result = applied(ConcatInPlace(), imported(concat_with_the_input_and_itself()))
    assert [edge.reason for edge in result.unfused] == ["a_dq_q already lives in another map"]


def test_a_join_lives_in_another_join() -> None:
    result = applied(ConcatInPlace(), imported(concat_of_a_concat()))
    assert result.unfused == ()
    assert not [op for op in result.graph.operators if isinstance(op, Move)]
