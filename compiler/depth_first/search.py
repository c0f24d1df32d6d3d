"""Chooses how a net is cut into segments and how tall its stripes are, under the SRAM limit.

Taller stripes cost fewer dispatches and more SRAM. First the whole net as one segment; when not even stripes of one
row fit, dynamic programming over cut points, where a map that crosses a cut lies in SRAM if it fits and in DDR if not.
Costs are nanoseconds: dispatches, and what crosses over DDR beyond what computing hides.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from compiler.constants import Constants
from compiler.depth_first.layout import Choice, Cut, Layout, lay_out
from compiler.depth_first.likeness import likeness
from compiler.depth_first.rounds import Stuck
from compiler.memory.buffers import windowed
from compiler.memory.plan import place_pinned
from compiler.options import CompileOptions
from compiler.schedule import Schedule
from compiler.timing import step_macs
from contracts.npu import NpuSpec

_TRIED_ROWS = (16, 8, 4, 2, 1)
_BUDGETS = (1.0, 0.95, 0.9, 0.8)
"""Shares of the SRAM that the search for cuts may use: segments are judged one by one, together they need more."""


@dataclass
class Search:
    """One profile's search."""

    schedule: Schedule
    constants: Constants
    quant_bytes: int
    spec: NpuSpec
    options: CompileOptions
    _peaks: dict[tuple[object, ...], int | None] = field(default_factory=dict)
    _likenesses: dict[tuple[int, int, frozenset[str]], Hashable] = field(default_factory=dict)

    def best(self) -> Layout | None:
        """The best layout that fits; None when none was found. A net with windows is not cut into segments."""
        whole = self._whole_net()
        if whole is not None or windowed(self.schedule.graph):
            return whole
        for share in _BUDGETS:
            choice = _CutSearch(self, int(self.spec.sram_bytes * share)).choose()
            layout = self._fitting(choice) if choice else None
            if layout is not None:
                return layout
        return None

    def _whole_net(self) -> Layout | None:
        """The whole net as one segment with the tallest stripes that fit, then the shortest of the same count."""
        tallest = self._tallest()
        rows = self._bisect(tallest) if self.options.stripe_rows is None else min(tallest, self.options.stripe_rows)
        if not rows:
            return None
        rounds = -(-tallest // rows)
        even = -(-tallest // rounds) if self.options.stripe_rows is None else rows
        return self._fitting(self._one(even)) or self._fitting(self._one(rows))

    def _one(self, rows: int) -> Choice:
        cut = Cut(0, len(self.schedule.kernels), rows)
        return Choice((cut,), frozenset(), resident=True, double_buffer=self.options.double_buffer)

    def _bisect(self, tallest: int) -> int:
        """The tallest stripe that fits; 0 when none does."""
        low, high = 0, tallest
        while low < high:
            middle = (low + high + 1) // 2
            peak = self._peak(self._one(middle))
            if peak is not None and peak <= self.spec.sram_bytes:
                low = middle
            else:
                high = middle - 1
        return low

    def _tallest(self) -> int:
        values = self.schedule.graph.values
        return max(values[step.result].height // _factor(step) for step in self.schedule.steps)

    def _fitting(self, choice: Choice) -> Layout | None:
        try:
            layout = lay_out(self.schedule, self.constants, self.quant_bytes, choice)
        except Stuck:
            return None
        limit = self.spec.sram_bytes
        return layout if place_pinned(layout.buffers, self.spec.alignment, limit).peak <= limit else None

    def _peak(self, choice: Choice) -> int | None:
        """SRAM bytes of a choice from its first rounds; None when it cannot be cut like that."""
        key = (choice.cuts, choice.in_sram, choice.resident)
        if key not in self._peaks:
            try:
                layout = lay_out(self.schedule, self.constants, self.quant_bytes, choice, settle=True)
                self._peaks[key] = place_pinned(layout.buffers, self.spec.alignment).peak
            except Stuck:
                self._peaks[key] = None
        return self._peaks[key]

    def segment_peak(self, first: int, last: int, rows: int, in_sram: frozenset[str]) -> int | None:
        """Bytes of rings and whole maps of one segment alone, constants left out."""
        kernels = self.schedule.kernels[first:last]
        part = Schedule(self.schedule.graph, kernels)
        choice = Choice((Cut(0, len(kernels), rows),), in_sram, True, self.options.double_buffer)
        run = first, last, in_sram
        if run not in self._likenesses:
            self._likenesses[run] = likeness(self.schedule.graph, kernels, in_sram)
        key = (self._likenesses[run], rows)
        if key not in self._peaks:
            try:
                empty = Constants(b"", {}, {kernel.name: (0, 0) for kernel in kernels})
                layout = lay_out(part, empty, self.quant_bytes, choice, settle=True)
                self._peaks[key] = place_pinned(layout.buffers, self.spec.alignment).peak
            except Stuck:
                self._peaks[key] = None
        return self._peaks[key]


@dataclass(frozen=True)
class _State:
    cost: float
    cuts: tuple[Cut, ...]
    in_sram: frozenset[str]


class _CutSearch:
    """Dynamic programming over cut points; the state is whether the map at the cut lies in SRAM or in DDR."""

    def __init__(self, search: Search, budget: int) -> None:
        self.search, self.budget = search, budget
        self.kernels = search.schedule.kernels
        self.resident = len(search.constants.data) * 2 < budget or not search.constants.streamable

    def choose(self) -> Choice | None:
        best: dict[tuple[int, bool], _State] = {(0, False): _State(0.0, (), frozenset())}
        count = len(self.kernels)
        for last in range(1, count + 1):
            for home in (True, False) if last < count else (False,):
                found = self._cheapest(best, last, home)
                if found is not None:
                    best[last, home] = found
        done = best.get((count, False))
        if done is None:
            return None
        return Choice(done.cuts, done.in_sram, self.resident, self.search.options.double_buffer)

    def _cheapest(self, best: dict[tuple[int, bool], _State], last: int, home: bool) -> _State | None:
        """The cheapest way to a cut, the first of equal ones. Ways are looked at from the one that could be cheapest
        on; laying a segment out, which alone says whether it fits, is left to those that could still win.
        """
        chosen: tuple[float, int, _State] | None = None
        for floor, order, first, entered in sorted(self._ways(best, last, home)):
            limit = math.inf if chosen is None else chosen[0]
            if floor > limit:
                break
            found = self._extended(best[first, entered], first, last, entered, home, limit)
            if found is not None and (chosen is None or (found.cost, order) < chosen[:2]):
                chosen = found.cost, order, found
        return chosen[2] if chosen else None

    def _ways(
        self, best: dict[tuple[int, bool], _State], last: int, home: bool
    ) -> Iterator[tuple[float, int, int, bool]]:
        """The least that each way can cost, its rank among equals, where its last segment begins, and whether from
        SRAM.
        """
        begins = [(first, entered) for first in range(last - 1, -1, -1) for entered in (True, False)]
        for order, (first, entered) in enumerate(begins):
            state = best.get((first, entered))
            if state is not None:
                tallest = next(iter(self._heights(first, last)))
                yield state.cost + self._cost(first, last, tallest, entered, home), order, first, entered

    def _extended(self, state: _State, first: int, last: int, entered: bool, home: bool, limit: float) -> _State | None:
        """The way on with the tallest stripes that fit; None when none does for up to ``limit``."""
        whole = frozenset(self._crossing(first) if entered else ()) | frozenset(self._crossing(last) if home else ())
        room = self.budget - self._constants(first, last)
        for rows in self._heights(first, last) if room > 0 else ():
            cost = state.cost + self._cost(first, last, rows, entered, home)
            if cost > limit:
                return None  # shorter stripes cost more
            peak = self.search.segment_peak(first, last, rows, whole)
            if peak is not None and peak <= room:
                return _State(cost, (*state.cuts, Cut(first, last, rows)), state.in_sram | whole)
        return None

    def _heights(self, first: int, last: int) -> Iterator[int]:
        values = self.search.schedule.graph.values
        steps = [step for kernel in self.kernels[first:last] for step in kernel.steps]
        tallest = max(values[step.result].height // _factor(step) for step in steps)
        if self.search.options.stripe_rows is not None:
            yield min(tallest, self.search.options.stripe_rows)
            return
        yield tallest
        yield from (rows for rows in _TRIED_ROWS if rows < tallest)

    def _crossing(self, cut: int) -> list[str]:
        """Values made before a cut and read behind it; the graph's input is always in DDR."""
        graph = self.search.schedule.graph
        made = {step.result for kernel in self.kernels[:cut] for step in kernel.steps}
        read = {value for kernel in self.kernels[cut:] for step in kernel.steps for value in step.reads}
        return sorted(value for value in made & read if not graph.is_output(value))

    def _constants(self, first: int, last: int) -> int:
        sizes = {kernel.name: self.search.constants.kernels[kernel.name][1] for kernel in self.kernels}
        if self.resident:
            return sum(sizes.values())
        own = sum(sizes[kernel.name] for kernel in self.kernels[first:last])
        beside = [sizes[kernel.name] for kernel in (*self.kernels[last : last + 1], *self.kernels[first - 1 : first])]
        return own + max(beside, default=0)

    def _cost(self, first: int, last: int, rows: int, entered: bool, home: bool) -> float:
        search, spec = self.search, self.search.spec
        graph = search.schedule.graph
        steps = [step for kernel in self.kernels[first:last] for step in kernel.steps]
        tallest = max(graph.values[step.result].height // _factor(step) for step in steps)
        stripes = -(-tallest // rows)
        dispatches = (stripes - 1) * (last - first) * spec.dispatch_us * 1000
        moved = sum(graph.values[v].size for v in self._crossing(first) if not entered)
        moved += sum(graph.values[v].size for v in self._crossing(last) if not home)
        if not self.resident:
            moved += sum(search.constants.kernels[kernel.name][1] for kernel in self.kernels[first:last])
        transfer = moved / (spec.ddr_bytes_per_ns * spec.ddr_efficiency)
        compute = sum(step_macs(step, graph) for step in steps) / spec.peak_macs_per_ns
        return dispatches + max(0.0, transfer - compute) + 0.05 * transfer


def _factor(step: object) -> int:
    write = getattr(step, "write", None)
    return write.block if write is not None and write.block else 1
