"""Runs of kernels that differ in names and weights alone are laid out once."""

from __future__ import annotations

from compiler.depth_first.likeness import likeness
from compiler.driver import read_model
from compiler.schedule import Schedule, schedule
from tests.support.models import vsr_qdq


def net(blocks: int = 4) -> Schedule:
    return schedule(read_model("model", vsr_qdq(16, 16, blocks, 3), [(48, 64)]).profiles[0].fused.graph)


def test_the_blocks_of_a_net_are_alike_and_its_ends_are_not() -> None:
    found = net()
    graph, kernels = found.graph, found.kernels
    names = [kernel.name for kernel in kernels]
    blocks = [index for index, name in enumerate(names) if name.startswith("block")]
    inner = {likeness(graph, kernels[index : index + 1], ()) for index in blocks[1:-1]}
    assert len(inner) == 1
    assert likeness(graph, kernels[:1], ()) not in inner
    assert likeness(graph, kernels[-1:], ()) not in inner
    two = {likeness(graph, kernels[index : index + 2], ()) for index in blocks[1:-2]}
    assert len(two) == 1
    assert not two & inner


def test_where_a_value_lies_is_part_of_the_likeness() -> None:
    found = net()
    run = found.kernels[2:3]
    entering = run[0].steps[0].reads[0]
    assert likeness(found.graph, run, ()) != likeness(found.graph, run, {entering})
