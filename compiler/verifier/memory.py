"""The memory as the verifier sees it: which command wrote each row, as what, who read it, and in which order
the queues may run.

A read must find rows that were written whole, of one value, in order; a write retires what it covers. From
this alone follow read-before-write, dead writes (overlapping live ranges), mixed-up stripes and missing
waits.
"""

from __future__ import annotations

from compiler.verifier.constants import Piece, Range, Roles
from compiler.verifier.findings import Report
from compiler.verifier.queues import COMPUTE, DMA, Queues
from compiler.verifier.regions import Region
from compiler.verifier.rows import Part, Rows, Slot
from compiler.verifier.runs import NOTHING, Reading, Run, find_row
from compiler.verifier.unread import AT_END, Unread
from compiler.verifier.values import MIXED, UNKNOWN, Values
from contracts.npu import Space

FRAME = -1  # writer index of the input frame


class _Retired:
    """What a write covers: writers of the prologue, and the latest accesses of the other queue."""

    __slots__ = ("prologue", "read", "written")

    def __init__(self) -> None:
        self.prologue: set[int] = set()
        self.written = self.read = -1


class Memory:
    """Live rows of SRAM and DDR in one frame."""

    def __init__(self, report: Report, n_prologue: int, alignment: int, roles: Roles) -> None:
        self.report = report
        self.values = Values()
        self.queues = Queues(report, n_prologue)
        self._unread = Unread(report, self.values)
        self._unaligned: dict[int, int] = {}  # command -> offset of its dst, until it is seen to be a part
        self.ends: list[tuple[int, int, int]] = []  # (command, value, rows): there the value has to end
        self._n_prologue = n_prologue
        self._alignment = alignment
        self.roles = roles
        self._rows = {int(Space.SRAM): Rows(), int(Space.DDR): Rows()}

    def begin_frame(self, name: str, region: Region, zero_point: int, scale: float) -> None:
        """The input of a stream, or a state, is there before the first command of the frame."""
        self.write(FRAME, COMPUTE, region, self.values.intern(name, zero_point, scale), 0)

    def read(self, index: int, queue: int, region: Region, zero_point: int | None, what: str) -> Reading:
        """A command reads a region; a ``zero_point`` of None takes any."""
        run = Run(index, queue)
        rows = self._rows[region.space]
        cols, pitch, channels = region.cols, region.pixel_stride, region.channels
        for start in region.starts():
            slot = rows.at.get(start)
            if slot is not None and slot.is_row(cols, pitch, channels):
                part = slot.parts[0]
                run.access(part)
                run.add(part.value, part.row)
                continue
            value, row, parts = find_row(rows, self.values, region, start)
            if not parts:
                rule = "region" if region.offset % self._alignment else "read before write"
                self.report.add(index, rule, f"{what} at {start} has no such writer")
                return NOTHING
            for part in parts:
                run.access(part)
            run.add(value, row)
        if self._unaligned and not region.offset % self._alignment:
            self._part_of(region)
        return self._meaning(index, queue, run, zero_point, what)

    def constants(self, index: int, offset: int, size: int, role: str) -> tuple[Range, ...]:
        """A command reads constants; the ranges of the sections that they are, () after a finding."""
        ranges: list[Range] = []
        late, at = -1, offset
        while at < offset + size:
            slot = self._rows[Space.SRAM].holding(at)
            if slot is None or slot.piece is None:
                self.report.add(index, "read before write", f"{role} at {offset}..{offset + size} has no such writer")
                return ()
            end = min(slot.end, offset + size)
            self._use(slot, slot.piece, at, end, index, ranges)
            if slot.parts[0].queue != COMPUTE:
                late = max(late, slot.parts[0].writer)
            at = end
        self.queues.ordered(index, COMPUTE, late, f"{role} is brought by command {late}")
        self.roles.use(self.report, index, tuple(ranges), role)
        return tuple(ranges)

    def write(self, index: int, queue: int, region: Region, value: int, row: int) -> None:
        """A command writes rows ``row..`` of a value."""
        if region.offset % self._alignment and not region.window:
            self._unaligned[index] = region.offset
        rows = self._rows[region.space]
        cols, pitch, channels = region.cols, region.pixel_stride, region.channels
        retired = _Retired()
        for number, start in enumerate(region.starts(), row):
            slot = rows.at.get(start)
            part = Part(0, channels, value, number, index, queue)
            if slot is not None and slot.is_row(cols, pitch, channels):
                self._retire(retired, index, queue, slot.parts[0])
                slot.parts[0] = part
            else:
                self._place(retired, rows, start, region, part)
        self.values.grow(value, row + region.rows)
        self._judge(index, queue, retired)

    def bring(self, index: int, queue: int, region: Region, piece: Piece) -> None:
        """A command writes constants, one contiguous run."""
        if region.offset % self._alignment:
            self._unaligned[index] = region.offset
        rows = self._rows[region.space]
        retired = _Retired()
        part = Part(0, piece.size, UNKNOWN, 0, index, queue)
        self.roles.coverage.brought.add((piece.space, piece.offset, piece.offset + piece.size))
        for slot in rows.meeting(region.offset, region.offset + piece.size):
            self._drop(retired, rows, slot, part, region.offset, region.offset + piece.size)
        rows.put(Slot(region.offset, 1, piece.size, part, piece))
        self._judge(index, queue, retired)

    def copied(self, index: int, region: Region) -> Piece | None:
        """The constants that a contiguous region is, read by a DMA; None when it holds rows."""
        slot = self._rows[region.space].holding(region.offset) if region.dense else None
        if slot is None or slot.piece is None or region.end > slot.end:
            return None
        slot.parts[0].dma_read = index
        at = region.offset - slot.start
        return Piece(slot.piece.space, slot.piece.offset + at, region.size)

    def finish(self) -> None:
        """At END: nothing that the frame wrote is left unread."""
        for rows in self._rows.values():
            for slot in rows.at.values():
                for part in slot.parts:
                    brought = slot.piece is not None and part.writer < self._n_prologue
                    if part.dma_read < 0 and part.compute_read < 0 and part.writer != FRAME and not brought:
                        self._unread.add(AT_END, part.writer, part.value, part.row)
        self._unread.finish()
        for writer, offset in self._unaligned.items():
            text = f"dst starts at {offset}, no multiple of {self._alignment}, and is no part of a map that does"
            self.report.add(writer, "region", text)

    def _part_of(self, region: Region) -> None:
        """Rows that are read as a part of an aligned map may start anywhere in it."""
        for start in region.starts():
            for part in find_row(self._rows[region.space], self.values, region, start)[2]:
                self._unaligned.pop(part.writer, None)

    def _meaning(self, index: int, queue: int, run: Run, zero_point: int | None, what: str) -> Reading:
        self.queues.ordered(index, queue, run.late, f"{what} is written by command {run.late}")
        value = MIXED if run.mixed else run.value(self.values)
        if value == MIXED:
            self.report.add(index, "rows", f"{what} is not one run of rows of one tensor")
            return NOTHING
        run.note(self.values)
        known = self.values.zero_point[value]
        if zero_point is not None and value != UNKNOWN and known != zero_point:
            self.report.add(index, "zero point", f"{what} has zero point {known}, the command says {zero_point}")
        self.ends += [(index, part, rows) for rows, part in run.ends()]
        return Reading(value, run.first)

    def _place(self, retired: _Retired, rows: Rows, start: int, region: Region, part: Part) -> None:
        """Write one row where no row of the same form is."""
        joined = False
        for slot in rows.meeting(start, start + region.row_bytes):
            alike = slot.piece is None and (slot.cols, slot.pitch) == (region.cols, region.pixel_stride)
            if alike and not joined and self._beside(retired, rows, slot, start - slot.start, part):
                joined = True
            else:
                self._drop(retired, rows, slot, part, start, start + region.row_bytes)
        if not joined:
            rows.put(Slot(start, region.cols, region.pixel_stride, part))

    def _beside(self, retired: _Retired, rows: Rows, slot: Slot, shift: int, part: Part) -> bool:
        """Whether the part is some channels of the slot's pixels; retires what it covers of them."""
        covered = [old for old in slot.parts if old.low < shift + part.high and shift < old.high]
        kept = [old for old in slot.parts if old not in covered]
        if not kept:
            return False
        slot.parts = kept
        if not rows.join(slot, shift, part):
            slot.parts = kept + covered
            return False
        for old in covered:
            self._retire(retired, part.writer, part.queue, old)
        return True

    def _use(self, slot: Slot, piece: Piece, low: int, high: int, index: int, ranges: list[Range]) -> None:
        slot.parts[0].compute_read = index
        slot.uses.append((low, high, index))
        offset = piece.offset + low - slot.start
        if ranges and ranges[-1][0] == piece.space and ranges[-1][2] == offset:
            ranges[-1] = piece.space, ranges[-1][1], offset + high - low
        else:
            ranges.append((piece.space, offset, offset + high - low))

    def _drop(self, retired: _Retired, rows: Rows, slot: Slot, by: Part, low: int, high: int) -> None:
        """Retire what ``low..high`` is written over; constants beside it stay what they are."""
        rows.drop(slot)
        if slot.piece is None:
            for part in slot.parts:
                self._retire(retired, by.writer, by.queue, part)
            return
        self._retire(retired, by.writer, by.queue, slot.parts[0], slot.last_use(low, high))
        for first, end in ((slot.start, min(low, slot.end)), (max(high, slot.start), slot.end)):
            if first < end:
                rows.put(_cut(slot, slot.piece, first, end))

    def _retire(self, retired: _Retired, index: int, queue: int, part: Part, compute_read: int | None = None) -> None:
        if part.writer < self._n_prologue <= index and part.writer != FRAME:
            retired.prologue.add(part.writer)
        if part.dma_read < 0 and part.compute_read < 0 and part.writer != FRAME:
            self._unread.add(index, part.writer, part.value, part.row)
        if part.queue != queue and part.writer > retired.written:
            retired.written = part.writer
        computed = part.compute_read if compute_read is None else compute_read
        read = computed if queue == DMA else part.dma_read
        if read > retired.read:
            retired.read = read

    def _judge(self, index: int, queue: int, retired: _Retired) -> None:
        """Report what a write did to what it covers."""
        for writer in sorted(retired.prologue):
            self.report.add(index, "prologue", f"overwrites what command {writer} of the prologue brought")
        self.queues.ordered(index, queue, retired.written, f"overwrites command {retired.written}")
        self.queues.ordered(index, queue, retired.read, f"overwrites bytes that command {retired.read} reads")


def _cut(slot: Slot, piece: Piece, first: int, end: int) -> Slot:
    """The constants ``first..end`` of a slot, and who read them."""
    whole, size = slot.parts[0], end - first
    part = Part(0, size, whole.value, whole.row, whole.writer, whole.queue)
    part.dma_read, part.compute_read = whole.dma_read, whole.compute_read
    left = Slot(first, 1, size, part, Piece(piece.space, piece.offset + first - slot.start, size))
    left.uses = [use for use in slot.uses if use[0] < end and first < use[1]]
    return left
