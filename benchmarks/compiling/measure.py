"""One compilation of one net, measured from the program that came out, not from what the compiler says of it.

Times come from the timing model of `docs/reference/npu-spec.md` over the command stream, once as the target is
specified and once with launches and dispatches costing nothing, as Vela counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from benchmarks.reference_nets import NetShape, qdq_model, quantized_net
from compiler.driver import compile_program
from compiler.options import CompileOptions
from compiler.report import ProgramReport
from compiler.timing import Commands, FrameEstimate, estimate, region_bytes
from contracts.npu import NpuSpec, Op, Profile, Program, Space, load_spec
from contracts.npu.program import FLAG_DISPATCH

TARGET = "npu-4t"
MODELS = ("ideal", "u85-like")


@dataclass(frozen=True)
class CompileTime:
    """Seconds of one compilation."""

    cpu: float
    wall: float


@dataclass(frozen=True)
class FrameTime:
    """One frame on one array model; milliseconds."""

    total: float
    bare: float
    """Without launches and dispatches."""

    ddr_efficiency: float
    """Bytes over what the bus could have moved while it was busy."""

    hidden: float
    """Share of the transfer time that computing covers."""


@dataclass(frozen=True)
class Compiled:
    """A program with what is asked of it."""

    shape: NetShape
    data: bytes
    report: ProgramReport
    time: CompileTime

    @cached_property
    def program(self) -> Program:
        """The program, read."""
        return Program.open(self.data)

    @property
    def profile(self) -> Profile:
        """Its only profile."""
        return self.program.profiles[0]

    @cached_property
    def frame(self) -> Commands:
        """The commands of one frame."""
        return self.program.commands(0)[self.profile.n_prologue :]

    @cached_property
    def dispatches(self) -> int:
        """Stripes that re-enter a kernel."""
        return int((self.frame["flags"] & FLAG_DISPATCH != 0).sum())

    @cached_property
    def launches(self) -> int:
        """Launches of one frame."""
        return self.estimated("ideal").launches

    @cached_property
    def host_commands(self) -> int:
        """Commands that the host CPU executes."""
        return int((self.frame["op"] == Op.HOST).sum())

    @cached_property
    def intermediate_bytes(self) -> int:
        """DDR traffic of one frame that is neither the input nor an output."""
        profile = self.profile
        homes = [(profile.input_offset, _bytes(profile.input))]
        homes += [(out.ddr_offset, out.height * out.width * out.channels) for out in profile.outputs]
        moved = 0
        for name in ("src", "residual", "dst"):
            regions = self.frame[name][self.frame[name]["space"] == Space.DDR]
            home = np.zeros(len(regions), bool)
            for start, size in homes:
                home |= (regions["offset"] >= start) & (regions["offset"] < start + size)
            moved += int(region_bytes(regions[~home]).sum())
        return moved

    @cached_property
    def prologue_bytes(self) -> int:
        """What is brought into SRAM once, at load, and no frame pays for."""
        commands = self.program.commands(0)[: self.profile.n_prologue]
        spec = load_spec(TARGET)
        return estimate(commands, self.program.names, spec, spec.array_model("ideal")).ddr_bytes

    def estimated(self, model: str, spec: NpuSpec | None = None) -> FrameEstimate:
        """The timing model over the frame."""
        spec = spec or load_spec(TARGET)
        return estimate(self.frame, self.program.names, spec, spec.array_model(model))

    def timed(self, model: str) -> FrameTime:
        """What the report wants to know of it."""
        spec = load_spec(TARGET)
        whole = self.estimated(model)
        bare = self.estimated(model, replace(spec, launch_us=0.0, dispatch_us=0.0))
        transfer = sum(kernel.transfer_ns for kernel in whole.kernels)
        overhead = sum(kernel.overhead_ns for kernel in whole.kernels)
        exposed = max(0.0, whole.total_ns - whole.compute_ns - overhead)
        return FrameTime(
            total=whole.total_ns / 1e6,
            bare=bare.total_ns / 1e6,
            ddr_efficiency=whole.ddr_bytes / spec.ddr_bytes_per_ns / transfer if transfer else 1.0,
            hidden=max(0.0, 1 - exposed / transfer) if transfer else 1.0,
        )

    def floor_ms(self) -> float:
        """No schedule is faster on this target: MACs at the full array or frames over the bus, and the launches."""
        spec = load_spec(TARGET)
        frames = _bytes(self.profile.input) + sum(out.height * out.width * out.channels for out in self.profile.outputs)
        busy = max(self.shape.macs / spec.peak_macs_per_ns, frames / spec.ddr_bytes_per_ns)
        return busy / 1e6 + self.launches * spec.launch_us / 1000


def compiled(shape: NetShape, options: CompileOptions | None = None) -> Compiled:
    """Compile one net for its frame size."""
    model = qdq_model(quantized_net(shape))
    cpu, wall = time.process_time(), time.perf_counter()
    data, report = compile_program(model, TARGET, [(shape.height, shape.width)], options=options or CompileOptions())
    took = CompileTime(time.process_time() - cpu, time.perf_counter() - wall)
    return Compiled(shape, data, report, took)


def _bytes(extents: tuple[int, int, int]) -> int:
    height, width, channels = extents
    return height * width * channels
