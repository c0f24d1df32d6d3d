"""The order of the passes, and what they said. Order matters: clamps before tables, borders and channel orders before
layouts, layouts before joins, joins before additions, and last what has no command of its own. Joins in place may leave
operands without a reader, so dead code goes twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.ir import Graph
from compiler.passes.base import Pass, Unfused, apply
from compiler.passes.channel_order import ChannelOrder
from compiler.passes.clamp_folding import ClampFolding
from compiler.passes.concat_in_place import ConcatInPlace
from compiler.passes.dead_code import DeadCode
from compiler.passes.legalisation import Legalisation
from compiler.passes.pad_folding import PadFolding
from compiler.passes.pixel_shuffle_hoisting import PixelShuffleHoisting
from compiler.passes.residual_fusion import ResidualFusion
from compiler.passes.space_to_depth_sinking import SpaceToDepthSinking
from compiler.passes.table_fusion import TableFusion

NEEDED: tuple[Pass, ...] = (DeadCode(), ClampFolding(), Legalisation())
"""What no program can do without: nothing is made in vain, an integer convolution has its clamp, and every operator a
command.
"""

PASSES: tuple[Pass, ...] = (
    DeadCode(),
    ClampFolding(),
    TableFusion(),
    PadFolding(),
    ChannelOrder(),
    SpaceToDepthSinking(),
    PixelShuffleHoisting(),
    ConcatInPlace(),
    DeadCode(),
    ResidualFusion(),
    Legalisation(),
)


OLD_PASSES: tuple[Pass, ...] = tuple(
    ResidualFusion(residual_first=False) if isinstance(step, ResidualFusion) else step for step in PASSES
)
"""For drivers that add a convolution's result as the first operand only."""


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
