"""Plays a segment row by row: who makes which rows in which round, and how many rows of each ring are alive at most.

In a round every node goes as far as its stripe and the rows that exist allow. With double buffers a load runs one
round ahead of its readers, and rows that a store moves stay untouched for one more round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from compiler.depth_first.rows import Operand
from compiler.depth_first.segment import Kind, Node, Segment


class Stuck(Exception):
    """No node of the segment can go on: it cannot be cut into stripes of this height."""


class Conflict(Exception):
    """Rows would be replaced in place while another reader still needs them; `result` has to live apart."""

    def __init__(self, result: str) -> None:
        super().__init__(result)
        self.result = result


@dataclass(frozen=True)
class Stripe:
    """One command: a node makes own rows `first` .. `last` (one past) in a round."""

    node: int
    first: int
    last: int
    round: int


@dataclass(frozen=True)
class Played:
    """Stripes in order of execution, rows of each group's ring, and the number of rounds."""

    stripes: tuple[Stripe, ...]
    rings: Mapping[str, int]
    rounds: int


SETTLED = 4
"""Rounds after which rings have their size, once every node is at work."""


def play(segment: Segment, rows: int, *, double_buffer: bool, settle: bool = False) -> Played:
    """Play with stripes of `rows` rows of the tallest operator; raises Stuck or Conflict.

    With `settle` it ends early: rings have reached their size long before a tall map is done.
    """
    return _Play(segment, rows, double_buffer).run(settle=settle)


class _Play:
    def __init__(self, segment: Segment, rows: int, double_buffer: bool) -> None:
        self.segment, self.double = segment, double_buffer
        self.nodes = segment.nodes
        tallest = max(node.shape.rows for node in self.nodes if node.kind is Kind.STEP)
        self.step = [self._stripe(node, rows, tallest) for node in self.nodes]
        self.done = [0] * len(self.nodes)
        self.lagged = list(self.done)
        self.previous = list(self.done)
        self.made = {value: segment.heights[value] if value in segment.ready else 0 for value in segment.heights}
        self.visible: dict[str, int] = {}
        self.rings: dict[str, int] = defaultdict(int)
        self.stripes: list[Stripe] = []
        self.loads = [index for index, node in enumerate(self.nodes) if node.kind is Kind.LOAD]
        self.wrote = [0] * len(self.nodes)
        self.made_by: dict[int, list[str]] = defaultdict(list)
        for value, makers in segment.makers.items():
            for maker in makers:
                self.made_by[maker].append(value)
        self.loaded = {value for index in self.loads for value in self.made_by[index]}
        self.readers: dict[str, list[tuple[int, Operand]]] = defaultdict(list)
        for index, node in enumerate(self.nodes):
            for operand in node.shape.operands:
                self.readers[operand.value].append((index, operand))
        self.members: dict[str, list[str]] = defaultdict(list)
        for value, group in segment.groups.items():
            self.members[group].append(value)

    @staticmethod
    def _stripe(node: Node, rows: int, tallest: int) -> int:
        share = max(1, rows * node.shape.rows // tallest)
        return min(node.shape.rows, -(-share // node.shape.unit) * node.shape.unit)

    def run(self, *, settle: bool) -> Played:
        turn = busy = 0
        while any(done < node.shape.rows for done, node in zip(self.done, self.nodes, strict=True)):
            busy += min(self.done) > 0
            if settle and busy > SETTLED:
                break
            before = len(self.stripes)
            self.lagged, self.previous = self.previous, list(self.done)
            self._load(turn)
            for index, node in enumerate(self.nodes):
                if node.kind is not Kind.LOAD:
                    self._advance(index, self._limit(index), turn)
            if len(self.stripes) == before:
                raise Stuck(f"stripes of {max(self.step)} rows")
            turn += 1
        rings = {group: self._size(group) for group in self.rings}
        return Played(tuple(self.stripes), rings, turn)

    def _size(self, group: str) -> int:
        height = self.segment.heights[self.members[group][0]]
        whole = any(value in self.segment.whole for value in self.members[group])
        return height if whole else min(height, self.rings[group])

    def _load(self, turn: int) -> None:
        if turn == 0 or not self.double:
            for index in self.loads:
                self._advance(index, self._wanted(index, turn + 1), turn)
        self.visible = dict(self.made)
        if self.double:
            for index in self.loads:
                self._advance(index, self._wanted(index, turn + 2), turn)

    def _wanted(self, index: int, rounds: int) -> int:
        """Rows that the readers of a load need to make `rounds` stripes."""
        wanted = 0
        for value in self.made_by[index]:
            for reader, operand in self.readers[value]:
                own = min(self.nodes[reader].shape.rows, rounds * self.step[reader])
                wanted = max(wanted, operand.run(0, own).high)
        return min(wanted, self.nodes[index].shape.rows)

    def _limit(self, index: int) -> int:
        node = self.nodes[index]
        last = min(node.shape.rows, self.done[index] + self.step[index])
        for operand in node.shape.operands:
            exist = (self.visible if operand.value in self.loaded else self.made)[operand.value]
            reach = operand.reach(exist)
            last = last if reach is None else min(last, reach)
        return last if last == node.shape.rows else last // node.shape.unit * node.shape.unit

    def _advance(self, index: int, last: int, turn: int) -> None:
        first, node = self.done[index], self.nodes[index]
        if last <= first:
            return
        if node.result:
            self.wrote[index] = node.shape.written(first, last).high
            self._measure(index, self.wrote[index])
            for value in self.made_by[index]:
                self.made[value] = min(self.wrote[maker] for maker in self.segment.makers[value])
        self.done[index] = last
        self.stripes.append(Stripe(index, first, last, turn))

    def _measure(self, index: int, written: int) -> None:
        """Account for the rows alive while a node writes up to row `written`; raises Conflict when it would replace
        rows that another node still needs.
        """
        node = self.nodes[index]
        group = self.segment.groups[node.result]
        if group in self.segment.joined:
            self._measure_joined(group, written)
            return
        newest = oldest = written
        earlier = True
        for value in self.members[group]:
            earlier = earlier and value != node.result
            newest = max(newest, self.made[value])
            for reader, operand in self.readers[value]:
                if reader == index:
                    continue
                low = self._low(reader, operand)
                oldest = min(oldest, low)
                if earlier and low < written:
                    raise Conflict(node.result)
        self.rings[group] = max(self.rings[group], newest - oldest)

    def _measure_joined(self, group: str, written: int) -> None:
        """The rows of a map with windows from the oldest that anyone needs of any window to the newest of any."""
        newest = oldest = written
        for value in self.members[group]:
            newest = max([newest, *(self.wrote[maker] for maker in self.segment.makers[value])])
            oldest = min([oldest, *(self._low(reader, operand) for reader, operand in self.readers[value])])
        self.rings[group] = max(self.rings[group], newest - oldest)

    def _low(self, reader: int, operand: Operand) -> int:
        """The oldest row of the operand that the reader still needs."""
        node = self.nodes[reader]
        done = self.lagged[reader] if node.kind is Kind.STORE and self.double else self.done[reader]
        return self.segment.heights[operand.value] if done >= node.shape.rows else operand.low(done)
