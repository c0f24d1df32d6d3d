"""What a bundle will do on its NPU, as the compiler's measures read it back from the file. Times are estimates."""

from __future__ import annotations

from pydantic import Field

from contracts.wire.base import Answer


class Placed(Answer):
    """A kernel: where it runs, which ONNX nodes it computes, why it begins where it does."""

    name: str
    unit: str = ""
    reason: str = ""
    nodes: tuple[str, ...] = ()


class Edge(Answer):
    """An edge that stayed in memory, and why it was not fused."""

    producer: str
    consumer: str
    reason: str = ""


class ProfileSummary(Answer):
    """One program at one input size. `number` names its details; bytes, and milliseconds by array model."""

    number: int
    profile: str
    input: tuple[int, ...]
    answers: dict[str, str] = Field(default_factory=dict)
    commands: int
    launches: int
    dispatches: int
    macs: int
    ddr_bytes: int
    ddr_intermediate_bytes: int
    sram_peak: int
    sram_bytes: int
    sram_lower_bound: int | None = None
    naive_sram: int | None = None
    planner: str | None = None
    proof: str | None = None
    latency_ms: dict[str, float]


class ProgramSummary(Answer):
    """One program of one core of a target. `constants_stored` bytes of the file hold its constants (null: as many as
    `constants_bytes`); where they are coded, loading takes `decode_ms` more, and `constants_note` says what that saves.
    """

    program: str
    target: str
    core: str
    constants_bytes: int
    constants_stored: int | None = None
    decode_ms: float = 0.0
    constants_note: str = ""
    placement: tuple[Placed, ...] = ()
    unfused: tuple[Edge, ...] = ()
    profiles: tuple[ProfileSummary, ...]


class BundleReport(Answer):
    """The whole bundle; `pieces` are bytes by name."""

    build_id: str
    digest: str
    size: int
    release_version: str
    security_epoch: int
    pieces: dict[str, int] = Field(default_factory=dict)
    programs: tuple[ProgramSummary, ...]


class KernelReport(Answer):
    """A kernel of one frame: microseconds by array model, what bounds it, what it moves."""

    kernel: str
    microseconds: dict[str, float]
    bound_by: dict[str, str]
    macs: int
    ddr_bytes: int
    launches: int
    dispatches: int
    operations: tuple[str, ...] = ()


class RangeReport(Answer):
    """Bytes of a memory that hold something needed from `begin_ns` to `end_ns`."""

    space: str
    offset: int
    size: int
    begin_ns: float
    end_ns: float
    kind: str
    label: str
    writers: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()


class LaneReport(Answer):
    """A row of the timeline: a kernel, or a direction of the DMA queue. Spans are (from, to) in ns, joined over gaps
    that are too small to see.
    """

    name: str
    queue: str
    busy_ns: float
    spans: tuple[tuple[float, float], ...]


class ProfileReport(Answer):
    """One frame in full. `further_ranges` counts those that are not listed (the largest are)."""

    number: int
    target: str
    core: str
    program: str
    profile: str
    array_model: str
    frame_ns: float
    sram_bytes: int
    sram_peak: int
    kernels: tuple[KernelReport, ...]
    ranges: tuple[RangeReport, ...]
    further_ranges: int = 0
    lanes: tuple[LaneReport, ...]
    further_lanes: int = 0
