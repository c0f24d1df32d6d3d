"""The order of the passes, and what they said. Order matters: clamps before layouts, layouts before
additions.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.ir import Graph
from compiler.passes.base import Pass, Unfused, apply
from compiler.passes.clamp_folding import ClampFolding
from compiler.passes.pixel_shuffle_hoisting import PixelShuffleHoisting
from compiler.passes.residual_fusion import ResidualFusion
from compiler.passes.space_to_depth_sinking import SpaceToDepthSinking

NEEDED: tuple[Pass, ...] = (ClampFolding(),)
"""What no program can do without: an integer convolution has its clamp."""

PASSES: tuple[Pass, ...] = (ClampFolding(), SpaceToDepthSinking(), PixelShuffleHoisting(), ResidualFusion())


@dataclass(frozen=True)
class Fused:
    """The graph after all passes, the log of changes, and the edges that stayed."""

    graph: Graph
    changes: tuple[str, ...]
    unfused: tuple[Unfused, ...]


def fuse(graph: Graph, passes: tuple[Pass, ...] = PASSES) -> Fused:
    """Run every pass once, in order."""
    changes: list[str] = []
    unfused: list[Unfused] = []
    for step in passes:
        result = apply(step, graph)
        graph = result.graph
        changes += [f"{step.name}: {change}" for change in result.changes]
        unfused += result.unfused
    return Fused(graph, tuple(changes), tuple(unfused))
