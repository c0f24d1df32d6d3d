"""What the builds service tells of a bundle, and its geometry: memory map and timeline as pictures made here."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from contracts.wire.base import Answer

WIDTH, HEIGHT, LEFT = 720.0, 320.0, 0.0
ROW, TOP = 22.0, 4.0
LEAST = 0.6
SHOWN_MODEL = "u85-like"


class Placed(Answer):
    """A kernel with its ONNX nodes."""

    name: str
    unit: str = ""
    reason: str = ""
    nodes: tuple[str, ...] = ()


class Edge(Answer):
    """An edge that stayed in memory."""

    producer: str
    consumer: str
    reason: str = ""


class Profile(Answer):
    """One program at one input size."""

    number: int
    profile: str
    answers: dict[str, str] = Field(default_factory=dict)
    commands: int
    launches: int
    macs: int
    ddr_bytes: int
    sram_peak: int
    sram_bytes: int
    sram_lower_bound: int | None = None
    latency_ms: dict[str, float]

    @property
    def milliseconds(self) -> float:
        """One frame under the model of the array that is shown, else the slowest one known."""
        return self.latency_ms.get(SHOWN_MODEL, max(self.latency_ms.values(), default=0.0))


class ProgramPart(Answer):
    """One program of one core."""

    program: str
    target: str
    core: str
    placement: tuple[Placed, ...] = ()
    unfused: tuple[Edge, ...] = ()
    profiles: tuple[Profile, ...] = ()

    @property
    def where(self) -> str:
        """Target and program, and the core where it is the little one."""
        return f"{self.target}/{self.program}" + (f" ({self.core})" if self.core != "big" else "")


class Report(Answer):
    """The whole bundle."""

    build_id: str
    digest: str
    size: int
    release_version: str
    security_epoch: int
    pieces: dict[str, int] = Field(default_factory=dict)
    programs: tuple[ProgramPart, ...] = ()


class Kernel(Answer):
    """A kernel of one frame."""

    kernel: str
    microseconds: dict[str, float]
    bound_by: dict[str, str]
    macs: int
    ddr_bytes: int
    launches: int


class Range(Answer):
    """Bytes that are needed for a while."""

    space: str
    offset: int
    size: int
    begin_ns: float
    end_ns: float
    kind: str
    label: str


class Lane(Answer):
    """A row of the timeline."""

    name: str
    queue: str
    busy_ns: float
    spans: tuple[tuple[float, float], ...] = ()


class Frame(Answer):
    """One frame in full."""

    number: int
    target: str
    core: str
    program: str
    profile: str
    array_model: str
    frame_ns: float
    sram_bytes: int
    sram_peak: int
    kernels: tuple[Kernel, ...] = ()
    ranges: tuple[Range, ...] = ()
    further_ranges: int = 0
    lanes: tuple[Lane, ...] = ()
    further_lanes: int = 0


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


def memory_map(frame: Frame) -> tuple[Box, ...]:
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


def timeline(frame: Frame) -> tuple[Row, ...]:
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


def compare(first: Report, second: Report) -> tuple[Beside, ...]:
    """Programs and sizes of both, in the order of the first; what only one has says so."""
    left, right = _profiles(first), _profiles(second)
    made = []
    for where in dict.fromkeys((*left, *right)):
        if where in left and where in right:
            made.append(Beside(where, _pairs(left[where], right[where])))
        else:
            made.append(Beside(where, None, 1 if where in left else 2))
    return tuple(made)


def _profiles(report: Report) -> dict[str, Profile]:
    return {f"{program.where} {one.profile}": one for program in report.programs for one in program.profiles}


def _pairs(one: Profile, other: Profile) -> tuple[Pair, ...]:
    return (
        Pair("ms", one.milliseconds, other.milliseconds, 3),
        Pair("sram", one.sram_peak, other.sram_peak),
        Pair("ddr", one.ddr_bytes, other.ddr_bytes),
        Pair("macs", one.macs, other.macs),
        Pair("launches", one.launches, other.launches),
    )
