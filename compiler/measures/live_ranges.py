"""Which bytes hold what, from when to when, followed through the stream in its estimated time.

A range opens with the first write of a value and closes with its last read. A ring, a stripe of a larger map and a
sum written in place go on in the same range; any other write over its bytes opens a new one, which is how bytes are
reused. Invariant: two ranges that share bytes never overlap in time, or the stream is broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from compiler.measures.accesses import Storage, Touch, touches
from compiler.timing import TimedEvent
from contracts.npu import Op, Program, Space


class Kind(StrEnum):
    """What a range holds."""

    SCALES = "scales"
    WEIGHTS = "weights"
    INPUT = "input"
    OUTPUT = "output"
    MAP = "map"
    RING = "ring"
    STAGING = "staging"
    STATE = "state"


@dataclass(frozen=True)
class LiveRange:
    """``size`` bytes from ``offset``, alive from ``begin_ns`` to ``end_ns``. ``rows`` > 0: a ring of so many rows.

    ``resident``: written before the frame and kept.
    """

    space: Space
    offset: int
    size: int
    begin_ns: float
    end_ns: float
    kind: Kind
    label: str
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    rows: int
    in_place: bool
    resident: bool

    def shares_bytes(self, other: LiveRange) -> bool:
        """Whether both use some byte of the same memory."""
        return (
            self.space == other.space
            and self.offset < other.offset + other.size
            and other.offset < self.offset + self.size
        )


@dataclass
class _Open:
    storage: Storage
    begin: float
    end: float
    resident: bool
    outside: Space = Space.NONE
    in_place: bool = False
    writers: dict[str, None] = field(default_factory=dict)
    readers: dict[str, None] = field(default_factory=dict)
    rows_made: int = 0
    state: str = ""
    by_dma: bool = False
    to_dma: bool = False

    def absorb(self, other: _Open) -> None:
        """Take over a range that holds other channels of the same map."""
        self.storage = _union(self.storage, other.storage)
        self.begin, self.end = min(self.begin, other.begin), max(self.end, other.end)
        self.writers = {**other.writers, **self.writers}
        self.readers = {**other.readers, **self.readers}


def live_ranges(program: Program, index: int, events: Sequence[TimedEvent]) -> tuple[LiveRange, ...]:
    """Ranges of one profile in SRAM and DDR, by memory, address and time. ``events``: of the frame."""
    profile = program.profiles[index]
    tracker = _Tracker(program, index, events)
    commands = program.commands(index)
    for touch in touches(commands):
        tracker.follow(touch)
    frame_end = max((event.end_ns for event in events), default=0.0)
    opened = [*tracker.closed, *tracker.active]
    outputs = [
        _Output(output.name, output.ddr_offset, output.height * output.width * output.channels)
        for output in profile.outputs
    ]
    ranges = [_finished(entry, frame_end, profile.input_offset, outputs) for entry in opened]
    return tuple(sorted(ranges, key=lambda r: (r.space, r.offset, r.begin_ns, r.size)))


class _Tracker:
    def __init__(self, program: Program, index: int, events: Iterable[TimedEvent]) -> None:
        profile = program.profiles[index]
        self._names = program.names
        self._prologue = profile.n_prologue
        self._spans: dict[int, tuple[float, float]] = {}
        for event in events:
            begin, end = self._spans.get(event.command, (event.start_ns, event.end_ns))
            self._spans[event.command] = min(begin, event.start_ns), max(end, event.end_ns)
        height, width, channels = profile.input
        frame = Storage(Space.DDR, profile.input_offset, profile.input_offset + height * width * channels)
        self.active: list[_Open] = [_Open(frame, 0.0, 0.0, resident=False)]
        for state in profile.states:
            size = state.height * state.width * state.channels
            kept = Storage(Space.DDR, state.ddr_offset, state.ddr_offset + size)
            self.active.append(_Open(kept, 0.0, 0.0, resident=True, state=state.name))
        self.closed: list[_Open] = []
        self._found: dict[tuple[Space, int, int], _Open] = {}

    def follow(self, touch: Touch) -> None:
        """Take one command into account."""
        before = touch.command < self._prologue
        span = (0.0, 0.0) if before else self._spans.get(touch.command - self._prologue, (0.0, 0.0))
        name = self._names[touch.kernel]
        for storage in touch.reads:
            for entry in self._holders(storage):
                entry.end = max(entry.end, span[1])
                entry.readers[name] = None
                entry.to_dma |= touch.operation == Op.DMA
        if touch.write is not None:
            self._follow_state(touch.write, touch.reads)
            self._write(touch, touch.write, name, span, resident=before)

    def _follow_state(self, storage: Storage, sources: Sequence[Storage]) -> None:
        """What is copied over a state is that state for the next frame."""
        kept = self._holder(storage)
        if kept is not None and kept.state:
            for entry in (found for source in sources for found in self._holders(source)):
                entry.state = entry.state or f"next {kept.state}"

    def _holders(self, storage: Storage) -> list[_Open]:
        """The range that holds these bytes, or all that hold some of them: rows of a map from several commands."""
        whole = self._holder(storage)
        return [whole] if whole else [entry for entry in self.active if _overlap(entry.storage, storage)]

    def _holder(self, storage: Storage) -> _Open | None:
        key = (storage.space, storage.begin, storage.end)
        found = self._found.get(key)
        if found is None:
            found = next((entry for entry in self.active if _covers(entry.storage, storage)), None)
            if found is not None:
                self._found[key] = found
        return found

    def _write(self, touch: Touch, storage: Storage, name: str, span: tuple[float, float], *, resident: bool) -> None:
        entry = self._holder(storage)
        if entry is None or not _continues(entry, touch, storage, name):
            entry = self._open(storage, span[0], resident=resident)
        entry.end = max(entry.end, span[1])
        entry.outside = touch.outside or entry.outside
        entry.in_place |= touch.in_place
        entry.rows_made += 0 if touch.in_place else storage.rows
        entry.by_dma |= touch.operation == Op.DMA
        entry.writers[name] = None

    def _open(self, storage: Storage, begin: float, *, resident: bool) -> _Open:
        made = _Open(storage, begin, begin, resident)
        for other in [entry for entry in self.active if _overlap(entry.storage, storage)]:
            self.active.remove(other)
            if storage.sliced and other.storage.sliced:
                made.absorb(other)
            else:
                self.closed.append(other)
        self._found.clear()
        self.active.append(made)
        return made


def _continues(entry: _Open, touch: Touch, storage: Storage, name: str) -> bool:
    if touch.in_place or entry.state:
        return True
    same = entry.storage.begin == storage.begin and entry.storage.ring_rows == storage.ring_rows
    return same and storage.ring_rows > 0 and name in entry.writers and (touch.operation == Op.DMA) == entry.by_dma


def _covers(one: Storage, other: Storage) -> bool:
    return one.space == other.space and one.begin <= other.begin and other.end <= one.end


def _overlap(one: Storage, other: Storage) -> bool:
    return one.space == other.space and one.begin < other.end and other.begin < one.end


def _union(one: Storage, other: Storage) -> Storage:
    return replace(one, begin=min(one.begin, other.begin), end=max(one.end, other.end))


@dataclass(frozen=True)
class _Output:
    name: str
    begin: int
    size: int

    def holds(self, storage: Storage) -> bool:
        """Whether these bytes are part of the output."""
        return storage.space == Space.DDR and self.begin <= storage.begin < self.begin + self.size


def _finished(entry: _Open, frame_end: float, input_offset: int, outputs: Sequence[_Output]) -> LiveRange:
    storage = entry.storage
    output = next((output for output in outputs if output.holds(storage)), None)
    kind = _kind(entry, input_offset, is_output=output is not None)
    return LiveRange(
        space=storage.space,
        offset=storage.begin,
        size=storage.end - storage.begin,
        begin_ns=0.0 if entry.resident else entry.begin,
        end_ns=frame_end if entry.resident or kind == Kind.OUTPUT else entry.end,
        kind=kind,
        label=_label(entry, kind, output),
        writers=tuple(entry.writers),
        readers=tuple(entry.readers),
        rows=storage.ring_rows if entry.rows_made > storage.ring_rows else 0,
        in_place=entry.in_place,
        resident=entry.resident,
    )


def _kind(entry: _Open, input_offset: int, *, is_output: bool) -> Kind:
    storage = entry.storage
    if entry.state:
        return Kind.STATE
    if entry.outside == Space.QUANT:
        return Kind.SCALES
    if entry.outside == Space.CONST:
        return Kind.WEIGHTS
    if storage.space == Space.DDR and not entry.writers and storage.begin == input_offset:
        return Kind.INPUT
    if is_output:
        return Kind.OUTPUT
    if storage.space == Space.SRAM and (entry.by_dma or entry.to_dma):
        return Kind.STAGING
    return Kind.RING if entry.rows_made > storage.ring_rows > 0 else Kind.MAP


def _label(entry: _Open, kind: Kind, output: _Output | None) -> str:
    if kind == Kind.STATE:
        return entry.state if entry.state.startswith("next ") else f"state {entry.state}"
    if kind == Kind.SCALES:
        return "scales"
    if kind == Kind.WEIGHTS:
        return "weights" if entry.resident else f"weights of {_names(entry.readers)}"
    if kind == Kind.INPUT:
        return "input frame"
    if kind == Kind.OUTPUT and output is not None:
        whole = entry.storage.end - entry.storage.begin >= output.size
        return f"output {output.name}" if whole else f"part of output {output.name}, by {_names(entry.writers)}"
    if kind == Kind.STAGING and entry.storage.space == Space.SRAM:
        return f"rows in, for {_names(entry.readers)}" if entry.by_dma else f"rows out, from {_names(entry.writers)}"
    if not entry.readers:
        return f"{_names(entry.writers)}, never read"
    if list(entry.writers) == list(entry.readers):
        return f"inside {_names(entry.writers)}"
    return f"{_names(entry.writers)} → {_names(name for name in entry.readers if name not in entry.writers)}"


def _names(kernels: Iterable[str]) -> str:
    names = list(kernels)
    if not names:
        return "the same"
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
