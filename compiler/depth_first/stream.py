"""A layout with addresses to the command stream: each stripe is a copy of its node's command with other rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.depth_first.layout import Item, Layout
from compiler.depth_first.rows import Run
from compiler.depth_first.segment import Kind, Node
from compiler.fill import accesses, fill_operation, region
from compiler.ir import PLAIN
from compiler.lower import Lowering, Stream, finish, weights_dma
from compiler.memory.plan import Home
from compiler.schedule import Step
from contracts.npu import COMMAND, Op
from contracts.npu.program import FLAG_DISPATCH, FLAG_LAUNCH

Region = npt.NDArray[np.void]


def lower_stripes(work: Lowering, layout: Layout, ddr: Mapping[str, Home]) -> Stream:
    """The stream of one profile; `ddr` holds the homes of input, outputs and values that cross in DDR."""
    return finish(work, _Emitter(work, layout, ddr).body())


@dataclass(frozen=True)
class _Template:
    command: Region
    fields: tuple[str, ...]


class _Emitter:
    def __init__(self, work: Lowering, layout: Layout, ddr: Mapping[str, Home]) -> None:
        self._work, self._layout, self._ddr = work, layout, ddr
        self._addresses = work.addresses()
        self._templates: dict[tuple[int, int], Region] = {}

    def body(self) -> list[Region]:
        """All commands of the frame, without waits."""
        body: list[Region] = []
        launched: set[str] = set()
        entered: tuple[int, int, str] | None = None
        for item in self._layout.items:
            if item.stripe is None:
                body += weights_dma(self._work, item.weights)
                continue
            command = self._stripe(item)
            node = self._layout.parts[item.part].segment.nodes[item.stripe.node]
            entry = item.part, item.stripe.round, node.kernel
            if node.kind is Kind.STEP and entry != entered:
                command["flags"] |= FLAG_DISPATCH if node.kernel in launched else FLAG_LAUNCH
                launched.add(node.kernel)
                entered = entry
            body.append(command)
        return body

    def _stripe(self, item: Item) -> Region:
        assert item.stripe is not None
        part = self._layout.parts[item.part]
        node = part.segment.nodes[item.stripe.node]
        key = item.part, item.stripe.node
        if key not in self._templates:
            self._templates[key] = self._template(item.part, node)
        command = self._templates[key].copy()
        first, last = item.stripe.first, item.stripe.last
        if node.kind is Kind.STEP:
            assert node.step is not None
            self._step_rows(command, item.part, node, node.step, first, last)
        else:
            rows = Run(first, last)
            self._cut(command["src"], rows, self._source_rows(item.part, node))
            self._cut(command["dst"], rows, self._target_rows(item.part, node))
        return command

    def _step_rows(self, command: Region, part: int, node: Node, step: Step, first: int, last: int) -> None:
        runs = [operand.run(first, last) for operand in node.shape.operands]
        if command["op"] in (Op.CONV, Op.POOL):
            command["pt"], command["pb"] = runs[0].pad_top, runs[0].pad_bottom
        for access, run in zip(accesses(step), [*runs, node.shape.written(first, last)], strict=True):
            self._cut(command[access.field], run, self._ring(part, access.value))

    @staticmethod
    def _cut(place: Region, run: Run, ring: int) -> None:
        """Narrow a whole region to some of its rows; `ring` rows are kept where it lies."""
        if run.low == 0 and run.high == ring == place["rows"]:
            return
        place["rows"] = run.high - run.low
        place["ring_rows"], place["ring_first"] = ring, run.low % ring

    def _template(self, part: int, node: Node) -> Region:
        command = np.zeros((), COMMAND)
        command["kernel"] = self._work.kernel_indices[node.kernel]
        graph = self._work.graph
        if node.kind is Kind.STEP:
            assert node.step is not None
            fill_operation(command, graph, node.step, self._addresses)
            for access in accesses(node.step):
                home = self._home(part, access.value)
                command[access.field] = region(graph, access.value, access.view, home.space, home.offset)
            return command
        command["op"] = Op.DMA
        outside, inside = self._ddr[node.value], self._home(part, node.value)
        source, target = (outside, inside) if node.kind is Kind.LOAD else (inside, outside)
        command["src"] = region(graph, node.value, PLAIN, source.space, source.offset)
        command["dst"] = region(graph, node.value, PLAIN, target.space, target.offset)
        return command

    def _home(self, part: int, value: str) -> Home:
        return self._work.plan.homes[self._layout.buffer_of[part, value]]

    def _ring(self, part: int, value: str) -> int:
        return self._layout.rings[self._layout.buffer_of[part, value]]

    def _source_rows(self, part: int, node: Node) -> int:
        inside, whole = self._ring(part, node.value), self._work.graph.values[node.value].height
        return whole if node.kind is Kind.LOAD else inside

    def _target_rows(self, part: int, node: Node) -> int:
        inside, whole = self._ring(part, node.value), self._work.graph.values[node.value].height
        return inside if node.kind is Kind.LOAD else whole
