"""Geometry of a bundle's report: memory map and timeline as pictures made here, two bundles beside each other."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.wire.bundle_report import BundleReport, ProfileReport, ProfileSummary, ProgramSummary

WIDTH, HEIGHT = 720.0, 320.0
ROW, TOP = 22.0, 4.0
LEAST = 0.6
SHOWN_MODEL = "u85-like"


def milliseconds(profile: ProfileSummary) -> float:
    """One frame under the model of the array that is shown, else the slowest one known."""
    return profile.latency_ms.get(SHOWN_MODEL, max(profile.latency_ms.values(), default=0.0))


def place_of(program: ProgramSummary) -> str:
    """Target and program, and the core where it is the little one."""
    return f"{program.target}/{program.program}" + (f" ({program.core})" if program.core != "big" else "")


@dataclass(frozen=True)
class Box:
    """A rectangle with what it stands for."""

    x: float
    y: float
    width: float
    height: float
    look: str
    hint: str


@dataclass(frozen=True)
class Row:
    """A row of the timeline: where it stands and its boxes."""

    name: str
    y: float
    busy: float
    boxes: tuple[Box, ...]


def memory_map(frame: ProfileReport) -> tuple[Box, ...]:
    """The ranges in SRAM: time from left to right, addresses from bottom to top, the whole memory as height."""
    top, end = max(frame.sram_bytes, 1), frame.frame_ns or 1.0
    made = []
    for one in frame.ranges:
        if one.space != "SRAM":
            continue
        left, right = (min(max(moment, 0.0), end) / end * WIDTH for moment in (one.begin_ns, one.end_ns))
        height = one.size / top * HEIGHT
        y = HEIGHT - (one.offset + one.size) / top * HEIGHT
        hint = f"{one.label}: {one.size:,} B @ {one.offset:,}, {one.begin_ns / 1e6:.3f}–{one.end_ns / 1e6:.3f} ms"
        made.append(Box(left, y, max(right - left, LEAST), max(height, LEAST), one.kind, hint))
    return tuple(made)


def timeline(frame: ProfileReport) -> tuple[Row, ...]:
    """The lanes, one below the other."""
    end = frame.frame_ns or 1.0
    rows = []
    for number, lane in enumerate(frame.lanes):
        y = TOP + number * ROW
        look = "compute" if lane.queue == "compute" else "transfer"
        boxes = tuple(
            Box(start / end * WIDTH, y, max((stop - start) / end * WIDTH, LEAST), ROW - 6, look, "")
            for start, stop in lane.spans
        )
        rows.append(Row(lane.name, y, lane.busy_ns / end, boxes))
    return tuple(rows)


@dataclass(frozen=True)
class Pair:
    """A number of both bundles; `share` is how much more the second has, None where the first has nothing."""

    name: str
    before: float
    after: float
    digits: int = 0

    @property
    def share(self) -> float | None:
        """Relative difference."""
        return (self.after - self.before) / self.before if self.before else None


@dataclass(frozen=True)
class Beside:
    """One program at one size in both bundles; None where one of them has none."""

    where: str
    pairs: tuple[Pair, ...] | None
    only: int | None = None


def compare(first: BundleReport, second: BundleReport) -> tuple[Beside, ...]:
    """Programs and sizes of both, in the order of the first; what only one has says so."""
    left, right = _profiles(first), _profiles(second)
    made = []
    for where in dict.fromkeys((*left, *right)):
        if where in left and where in right:
            made.append(Beside(where, _pairs(left[where], right[where])))
        else:
            made.append(Beside(where, None, 1 if where in left else 2))
    return tuple(made)


def _profiles(report: BundleReport) -> dict[str, ProfileSummary]:
    return {f"{place_of(program)} {one.profile}": one for program in report.programs for one in program.profiles}


def _pairs(one: ProfileSummary, other: ProfileSummary) -> tuple[Pair, ...]:
    return (
        Pair("ms", milliseconds(one), milliseconds(other), 3),
        Pair("sram", one.sram_peak, other.sram_peak),
        Pair("ddr", one.ddr_bytes, other.ddr_bytes),
        Pair("macs", one.macs, other.macs),
        Pair("launches", one.launches, other.launches),
    )
