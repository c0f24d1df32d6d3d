"""The memory plan of a depth-first layout, in the terms of the operator-by-operator plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.constants import Constants
from compiler.depth_first.layout import Layout
from compiler.depth_first.search import Search
from compiler.depth_first.segment import Kind
from compiler.ir import Graph, place
from compiler.memory.buffers import Buffer
from compiler.memory.plan import CONSTANTS, Home, MemoryPlan, place_pinned
from compiler.memory.planner import HURRIED, Patience
from compiler.options import CompileOptions
from compiler.schedule import Schedule
from contracts.npu import NpuSpec, Space


@dataclass(frozen=True)
class DepthFirst:
    """A layout that fits, its plan, and the DDR homes of input, outputs and values that cross in DDR."""

    layout: Layout
    plan: MemoryPlan
    ddr: Mapping[str, Home]

    @property
    def segments(self) -> tuple[tuple[str, str, int], ...]:
        """First and last kernel and the most rows of a stripe, for each segment."""
        found = []
        for part in self.layout.parts:
            nodes = part.segment.nodes
            steps = [stripe for stripe in part.played.stripes if nodes[stripe.node].kind is Kind.STEP]
            rows = max(stripe.last - stripe.first for stripe in steps)
            found.append((part.segment.kernels[0].name, part.segment.kernels[-1].name, rows))
        return tuple(found)


def plan_depth_first(
    schedule: Schedule,
    constants: Constants,
    quant_bytes: int,
    spec: NpuSpec,
    options: CompileOptions,
    patience: Patience = HURRIED,
) -> DepthFirst | None:
    """The best depth-first plan of one profile; None when nothing fits, or when windows cut rows or are kept."""
    if not _windows_suit(schedule.graph):
        return None
    layout = Search(schedule, constants, quant_bytes, spec, options).best()
    return None if layout is None else _finished(schedule, constants, spec, layout, options.streams, patience)


def _windows_suit(graph: Graph) -> bool:
    """Windows share whole rows with the map that they lie in, and the net keeps nothing from frame to frame."""
    homes = [(value, place(graph, value.name)) for value in graph.values.values() if value.window is not None]
    return not homes or (
        not graph.states and all(home.row == 0 and value.height == home.root.height for value, home in homes)
    )


def _finished(
    schedule: Schedule, constants: Constants, spec: NpuSpec, layout: Layout, streams: int, patience: Patience
) -> DepthFirst | None:
    placement = place_pinned(layout.buffers, spec.alignment, spec.sram_bytes, patience)
    outside = [*schedule.graph.inputs, *(value for _, value in schedule.graph.outputs), *layout.crossing]
    homes, extent = _ddr(schedule, outside, spec.alignment, streams)
    if extent > spec.ddr_bytes:
        return None
    inside = {name: Home(Space.SRAM, offset) for name, offset in placement.offsets.items()}
    resident = any(buffer.name == CONSTANTS for buffer in layout.buffers) or not constants.data
    end = len(layout.items) - 1
    maps = [Buffer(f"{value} (DDR)", schedule.graph.values[value].size, 0, end, (value,)) for value in homes]
    traffic = sum(schedule.graph.values[value].size * _moves(layout, value) for value in homes)
    plan = MemoryPlan(
        buffers=(*layout.buffers, *maps),
        homes={**inside, **{f"{value} (DDR)": home for value, home in homes.items()}},
        value_homes=homes,
        weights_resident=resident,
        peak=placement.peak,
        bound=placement.bound,
        method=placement.method,
        proof=placement.status,
        ddr_extent=extent,
        traffic=traffic if resident else traffic + len(constants.data),
        reasons=tuple(_reasons(schedule, layout, resident, len(constants.data))),
    )
    return DepthFirst(layout, plan, homes)


def _moves(layout: Layout, value: str) -> int:
    return sum(node.value == value for part in layout.parts for node in part.segment.nodes)


def _ddr(schedule: Schedule, values: list[str], alignment: int, streams: int) -> tuple[dict[str, Home], int]:
    homes: dict[str, Home] = {}
    offset = 0
    for value in dict.fromkeys(values):
        homes[value] = Home(Space.DDR, offset)
        offset += -(-schedule.graph.values[value].size * streams // alignment) * alignment
    return homes, offset


def _reasons(schedule: Schedule, layout: Layout, resident: bool, constants: int) -> list[str]:
    reasons = []
    for value in layout.crossing:
        size = schedule.graph.values[value].size
        reasons.append(f"{value} ({size} bytes) crosses from one segment to the next in DDR: SRAM is short")
    if not resident:
        reasons.append(f"constants ({constants} bytes) are streamed, SRAM is short")
    return reasons
