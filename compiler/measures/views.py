"""A bundle or program file as values that the terminal, ``--json`` and the HTML page show.

What the stream says is computed here; what only the compiler knew (reasons, node names, the planner's bound) comes
from the bundle's pieces and may be absent in a bare program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from compiler.coding import Coding, coding_of
from compiler.entropy import expanded
from compiler.measures.kernels import FrameUsage, frame_usage
from compiler.measures.live_ranges import Kind, LiveRange, live_ranges
from compiler.timing import Commands, FrameEstimate, estimate
from contracts.bundle import Bundle
from contracts.npu import ArrayModel, NpuSpec, Op, Profile, Program, Space, chip_of, core_name, load_spec

Facts = Mapping[str, Any]  # Any: JSON of the bundle's pieces
OUTSIDE = (Kind.INPUT, Kind.OUTPUT, Kind.STATE)  # kinds that live in DDR whatever the plan
DRAWN_MODEL = "u85-like"


@dataclass(frozen=True)
class TimedFrame:
    """One frame under one array model."""

    model: ArrayModel
    estimate: FrameEstimate
    usage: FrameUsage


@dataclass(frozen=True)
class ProfileView:
    """One input size of a program; ``plan`` is its entry of ``memory_map.json``."""

    program: Program
    index: int
    spec: NpuSpec
    plan: Facts

    @property
    def profile(self) -> Profile:
        """Name, extents, traffic, peak."""
        return self.program.profiles[self.index]

    @property
    def commands(self) -> Commands:
        """Commands of the frame, prologue left out."""
        return self.program.commands(self.index)[self.profile.n_prologue :]

    @cached_property
    def frames(self) -> tuple[TimedFrame, ...]:
        """The frame under every array model of the target."""
        return tuple(self._timed(model) for model in self.spec.array_models)

    def frame(self, model: str = DRAWN_MODEL) -> TimedFrame:
        """The frame under one array model; the last one where that model is not known."""
        return next((frame for frame in self.frames if frame.model.name == model), self.frames[-1])

    @cached_property
    def ranges(self) -> tuple[LiveRange, ...]:
        """Live ranges in the time of the drawn array model."""
        return live_ranges(self.program, self.index, self.frame().estimate.events)

    @property
    def command_count(self) -> int:
        """Commands with the prologue, END left out."""
        return int((self.program.commands(self.index)["op"] != Op.END).sum())

    @property
    def spilled(self) -> int:
        """Bytes of DDR that hold neither input, output nor state: intermediates that found no room in SRAM."""
        outside = [entry for entry in self.ranges if entry.space == Space.DDR]
        return sum(entry.size for entry in outside if entry.kind not in OUTSIDE)

    @property
    def host_kernels(self) -> tuple[str, ...]:
        """Kernels that run on the CPU."""
        return tuple(kernel.name for kernel in self.frame().usage.kernels if "HOST" in kernel.operations)

    def _timed(self, model: ArrayModel) -> TimedFrame:
        names, commands = self.program.names, self.commands
        frame = estimate(commands, names, self.spec, model)
        return TimedFrame(model, frame, frame_usage(commands, frame, names))


@dataclass(frozen=True)
class ProgramView:
    """One program; ``kernels`` is its entry of ``kernel_metadata.json``."""

    name: str
    program: Program
    kernels: Facts
    profiles: tuple[ProfileView, ...]
    coding: Coding

    @property
    def constants_note(self) -> str:
        """How the file holds the constants, or why they are plain although coding was asked for; else empty."""
        return self.coding.note or str(self.kernels.get("constants", ""))

    @property
    def target(self) -> str:
        """The NPU that it is made for, whichever of its cores."""
        return chip_of(self.program.target)

    @property
    def core(self) -> str:
        """Which core runs it: big or little."""
        return core_name(self.program.target)

    @property
    def unfused(self) -> tuple[Facts, ...]:
        """Edges that stayed in memory: producer, consumer, reason."""
        return tuple(self.kernels.get("unfused", ()))

    @property
    def changes(self) -> tuple[str, ...]:
        """What the passes changed, one line each."""
        return tuple(self.kernels.get("changes", ()))

    @property
    def placement(self) -> tuple[Facts, ...]:
        """Kernels with their ONNX nodes: name, unit, reason, nodes."""
        return tuple(self.kernels.get("kernels", ()))


@dataclass(frozen=True)
class FileView:
    """The whole file; ``release`` is empty for a bare program."""

    file: str
    size: int
    release: Facts = field(default_factory=dict)
    pieces: Mapping[str, int] = field(default_factory=dict)
    programs: tuple[ProgramView, ...] = ()


def view_file(path: Path) -> FileView:
    """Read a bundle (``*.elb``) or a program (``*.npu``); raises BundleError, ProgramError or OSError."""
    if path.suffix == ".npu":
        data = path.read_bytes()
        return FileView(path.name, len(data), programs=(_program("program", Program.open(data), {}, {}),))
    bundle = Bundle.open(path)
    manifest = bundle.manifest
    return FileView(
        file=path.name,
        size=bundle.size,
        release={
            "digest": bundle.digest,
            "build_id": manifest.build_id,
            "release_version": manifest.release_version,
            "security_epoch": manifest.security_epoch,
        },
        pieces={name: record.length for name, record in manifest.pieces.items()},
        programs=tuple(
            _program(
                name,
                bundle.program(target, name),
                _piece(bundle, target, "memory_map", name),
                _piece(bundle, target, "kernel_metadata", name),
            )
            for target in bundle.targets
            for name in _programs(bundle, target)
        ),
    )


def _programs(bundle: Bundle, target: str) -> list[str]:
    """Names of a target's programs, the model first."""
    pieces = [name.removesuffix(".npu").split("/") for name in bundle.names if name.endswith(".npu")]
    return sorted(piece[-1] for piece in pieces if piece[0] == target)


def _program(name: str, stored: Program, memory: Facts, kernels: Facts) -> ProgramView:
    spec, program = load_spec(stored.target), expanded(stored)
    profiles = tuple(
        ProfileView(program, index, spec, _mapping(memory.get(profile.name)))
        for index, profile in enumerate(program.profiles)
    )
    return ProgramView(name, program, kernels, profiles, coding_of(stored, program, spec))


def _piece(bundle: Bundle, target: str, piece: str, program: str) -> Facts:
    name = f"{target}/{piece}.json"
    if name not in bundle.names:
        return {}
    return _mapping(_mapping(bundle.json(name).get("programs")).get(program))


def _mapping(value: object) -> Facts:
    return cast("Facts", value) if isinstance(value, dict) else {}
