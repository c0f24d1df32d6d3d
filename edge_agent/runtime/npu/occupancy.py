"""How many bytes of the SRAM a frame holds, command by command, from the stream alone.

A place is held from the command that writes it to the last that reads it before it is written anew; a ring from
its first command to its last; constants, which the prologue loaded, for the whole frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contracts.npu.program import Space
from edge_agent.runtime.npu.commands import Command
from edge_agent.runtime.npu.regions import Region
from edge_agent.runtime.npu.weights import constant_ranges

Range = tuple[int, int]
Life = tuple[int, int, Range]
"""First command, last command, and the bytes held between them, both included."""


def occupancy(prologue: Sequence[Command], frame: Sequence[Command]) -> list[int]:
    """Return the bytes held while each command of the frame runs."""
    held = [_hull(command.target) for command in prologue if command.target.space == Space.SRAM]
    begins: dict[int, list[Range]] = {}
    ends: dict[int, list[Range]] = {}
    for first, last, place in lives(frame):
        begins.setdefault(first, []).append(place)
        ends.setdefault(last, []).append(place)
    alive: list[Range] = list(held)
    result, total = [], _covered(alive)
    for position in range(len(frame)):
        started = begins.get(position, [])
        if started:
            alive += started
            total = _covered(alive)
        result.append(total)
        for place in ends.get(position, ()):
            alive.remove(place)
        if position in ends:
            total = _covered(alive)
    return result


def lives(frame: Sequence[Command]) -> list[Life]:
    """Return when each place of activations, or of streamed constants, is held; positions count in `frame`."""
    held: list[_Held] = []
    done: list[Life] = []
    for position, command in enumerate(frame):
        for place in _read_places(command):
            _read(held, place, position)
        if command.target.space == Space.SRAM:
            place, ring = _hull(command.target), command.target.ring_rows > 0
            for over in [entry for entry in held if entry.dies_under(place, position)]:
                held.remove(over)
                done.append((over.first, over.last, over.place))
            _write(held, place, ring, position)
    return [*done, *((entry.first, entry.last, entry.place) for entry in held)]


@dataclass
class _Held:
    place: Range
    ring: bool
    first: int
    last: int

    def touches(self, place: Range) -> bool:
        return self.place[0] < place[1] and place[0] < self.place[1]

    def dies_under(self, place: Range, position: int) -> bool:
        """Whether a write of `place` ends this life: it covers it, and does not go on with it."""
        goes_on = self.last == position or (self.ring and self.place == place)
        return not goes_on and place[0] <= self.place[0] and self.place[1] <= place[1]


def _read(held: list[_Held], place: Range, position: int) -> None:
    found = [entry for entry in held if entry.touches(place)]
    for entry in found:
        entry.last = position
    if not found:
        held.append(_Held(place, True, position, position))


def _write(held: list[_Held], place: Range, ring: bool, position: int) -> None:
    same = [entry for entry in held if entry.place == place]
    for entry in same:
        entry.last = position
    if not same:
        held.append(_Held(place, ring, position, position))


def _read_places(command: Command) -> Iterator[Range]:
    for region in command.reads:
        if region.space == Space.SRAM:
            yield _hull(region)
    for offset, size in constant_ranges(command):
        yield offset, offset + size


def _hull(region: Region) -> Range:
    return region.offset, region.offset + region.extent


def _covered(places: list[Range]) -> int:
    total = end = 0
    for low, high in sorted(places):
        total += max(0, high - max(low, end))
        end = max(end, high)
    return total
