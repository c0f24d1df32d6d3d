"""The memory as the verifier sees it: which command wrote what, who read it, in which order the queues may
run.

A write is a record with its exact geometry. A later write over any of its bytes retires it; a read must find
a live record. From this alone follow read-before-write, dead writes (overlapping live ranges) and missing
waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.verifier.findings import Report
from compiler.verifier.regions import Region

FRAME = -1  # writer index of the input frame
DMA, COMPUTE = 0, 1


@dataclass
class Record:
    """One live write. ``zero_point`` is None for constants."""

    region: Region
    writer: int
    queue: int
    zero_point: int | None
    constant: bool
    readers: list[tuple[int, int]] = field(default_factory=list)  # (queue, command)


@dataclass
class Memory:
    """Live records, and for each queue how far the other queue is known to be done."""

    report: Report
    first_frame_command: int
    records: list[Record] = field(default_factory=list)
    events: dict[int, tuple[int, int]] = field(default_factory=dict)  # event -> (queue, command)
    done: dict[int, int] = field(default_factory=lambda: {DMA: -1, COMPUTE: -1})

    def begin(self, index: int, queue: int, wait: int) -> None:
        """Apply the wait of a command on ``queue``."""
        if index == self.first_frame_command:
            self.done = {DMA: index - 1, COMPUTE: index - 1}  # the prologue is complete before the frame
        if wait == 0:
            return
        if wait not in self.events:
            self.report.add(index, "event", f"waits for event {wait}, which no earlier command signals")
            return
        signaller, command = self.events[wait]
        if signaller != queue:
            self.done[queue] = max(self.done[queue], command)

    def signal(self, index: int, queue: int, event: int) -> None:
        """Apply the event of a command."""
        if event == 0:
            return
        if self.events and event <= max(self.events):
            self.report.add(index, "event", f"event {event} does not rise")
        self.events[event] = (queue, index)

    def read(self, index: int, queue: int, region: Region, zero_point: int | None, what: str) -> None:
        """A command reads a region; ``zero_point`` None means constants, which may be read in part."""
        record = self._find(region, partly=zero_point is None)
        if record is None:
            self.report.add(index, "read before write", f"{what} at {region.start}..{region.end} has no such writer")
            return
        if zero_point is not None and record.zero_point != zero_point:
            message = f"{what} has zero point {record.zero_point}, the command says {zero_point}"
            self.report.add(index, "zero point", message)
        self._ordered(index, queue, record.queue, record.writer, f"{what} is written by command {record.writer}")
        record.readers.append((queue, index))

    def write(self, index: int, queue: int, region: Region, zero_point: int | None, *, constant: bool) -> None:
        """A command writes a region."""
        for record in [entry for entry in self.records if entry.region.meets(region)]:
            self._retire(index, queue, record)
        self.records.append(Record(region, index, queue, zero_point, constant))

    def finish(self, end: int, outputs: list[tuple[str, Region, int]]) -> None:
        """At END: outputs are live and written as the profile says; nothing else is left unread."""
        for name, region, zero_point in outputs:
            self.read(end, COMPUTE, region, zero_point, f"output {name}")
        for record in self.records:
            if not record.readers and record.writer != FRAME:
                self.report.add(
                    record.writer, "dead write", f"{record.region.start}..{record.region.end} is never read"
                )

    def _find(self, region: Region, *, partly: bool) -> Record | None:
        for record in reversed(self.records):
            exact = record.region.geometry == region.geometry
            if exact or (partly and record.constant and record.region.holds(region)):
                return record
        return None

    def _retire(self, index: int, queue: int, record: Record) -> None:
        self.records.remove(record)
        if record.constant and record.writer < self.first_frame_command <= index:
            self.report.add(index, "prologue", f"overwrites what command {record.writer} of the prologue brought")
        if not record.readers and record.writer != FRAME:
            message = f"overwrites what command {record.writer} wrote and nobody read"
            self.report.add(index, "overlap of live ranges", message)
        self._ordered(index, queue, record.queue, record.writer, f"overwrites command {record.writer}")
        for reader_queue, reader in record.readers:
            self._ordered(index, queue, reader_queue, reader, f"overwrites bytes that command {reader} reads")

    def _ordered(self, index: int, queue: int, other: int, command: int, what: str) -> None:
        if command >= 0 and other != queue and command > self.done[queue]:
            self.report.add(index, "wait", f"{what} on the other queue, no wait orders them")
