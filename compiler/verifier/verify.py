"""Walk each stream once and check every rule of ``docs/reference/program.md``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.verifier.findings import Finding, Report
from compiler.verifier.memory import COMPUTE, DMA, FRAME, Memory, Record
from compiler.verifier.regions import Region, problem, span
from contracts.npu import REGION, Layout, NpuSpec, Op, Profile, Program, Space
from contracts.npu.program import FLAG_LAUNCH

_READS = (Layout.NHWC, Layout.S2D, Layout.NEAREST)
_WRITES = (Layout.NHWC, Layout.D2S)


def verify_program(program: Program, spec: NpuSpec) -> list[Finding]:
    """All broken rules; an empty list means that the program may run."""
    if program.target != spec.name:
        return [Finding("-", -1, "target", f"compiled for {program.target}, not {spec.name}")]
    findings = _quant_findings(program)
    for index, profile in enumerate(program.profiles):
        findings += _Walk(program, spec, profile, program.commands(index)).run()
    return findings


class _Walk:
    """One profile."""

    def __init__(self, program: Program, spec: NpuSpec, profile: Profile, stream: npt.NDArray[np.void]) -> None:
        self.program = program
        self.spec = spec
        self.profile = profile
        self.stream = stream
        self.report = Report(profile.name)
        self.memory = Memory(self.report, profile.n_prologue)
        sram, ddr = spec.sram_bytes, min(profile.ddr_extent, spec.ddr_bytes)
        self.sizes: dict[int, int] = {Space.SRAM: sram, Space.DDR: ddr}
        self.sources = {Space.CONST: len(program.constants), Space.QUANT: len(program.quant), **self.sizes}
        self.kernel = -1
        self.seen: set[int] = set()

    def run(self) -> list[Finding]:
        """Check the stream from the first command to END."""
        self._profile()
        for index, command in enumerate(self.stream[:-1]):
            self._command(index, command)
        if any(command["op"] == Op.END for command in self.stream[:-1]):
            self.report.add(-1, "end", "END before the last command")
        outputs = [
            (
                output.name,
                _image(output.ddr_offset, output.height, output.width, output.channels),
                output.zero_point,
            )
            for output in self.profile.outputs
        ]
        self.memory.finish(len(self.stream) - 1, outputs)
        return self.report.findings

    def _profile(self) -> None:
        profile = self.profile
        frame = _image(profile.input_offset, *profile.input)
        self.memory.records.append(Record(frame, FRAME, COMPUTE, profile.input_zero_point, constant=False))
        if frame.end > self.sizes[Space.DDR] or not 0 <= profile.n_prologue < len(self.stream):
            self.report.add(-1, "profile", "input or prologue lies outside")
        if profile.sram_peak > self.spec.sram_bytes or profile.ddr_extent > self.spec.ddr_bytes:
            self.report.add(-1, "profile", f"peak {profile.sram_peak} or DDR {profile.ddr_extent} exceeds the target")

    def _command(self, index: int, command: np.void) -> None:
        queue = DMA if command["op"] == Op.DMA else COMPUTE
        if command["op"] not in (Op.DMA, Op.CONV, Op.ADD, Op.SHUFFLE):
            self.report.add(index, "operation", f"op {command['op']} is unknown")
            return
        if np.any(command["reserved"]) or command["kernel"] >= len(self.program.names):
            self.report.add(index, "form", "reserved bytes are set or the kernel has no name")
        before = len(self.report.findings)
        self.memory.begin(index, queue, int(command["wait"]))
        self._kernel(index, command)
        source = self._region(index, command["src"], "src", self.sources if queue == DMA else self.sizes, _READS)
        target = self._region(index, command["dst"], "dst", self.sizes, _WRITES)
        if source and target:
            check = {Op.DMA: self._dma, Op.CONV: self._conv, Op.ADD: self._add, Op.SHUFFLE: self._shuffle}
            check[Op(command["op"])](index, command, source, target)
        elif len(self.report.findings) == before:
            self.report.add(index, "form", "src or dst is missing")
        self.memory.signal(index, queue, int(command["event"]))

    def _kernel(self, index: int, command: np.void) -> None:
        if command["op"] == Op.DMA:
            return
        if index < self.profile.n_prologue:
            self.report.add(index, "prologue", "only DMA commands may stand in the prologue")
        kernel = int(command["kernel"])
        launch = bool(command["flags"] & FLAG_LAUNCH)
        if launch == (kernel == self.kernel) or (launch and kernel in self.seen):
            self.report.add(index, "launch", f"kernel {kernel} is entered without a launch or launched twice")
        self.kernel = kernel
        self.seen.add(kernel)

    def _region(
        self, index: int, raw: np.void, what: str, sizes: dict[int, int], layouts: tuple[Layout, ...]
    ) -> Region | None:
        region = Region.of(raw)
        alignment = self.spec.alignment if region.space in (Space.SRAM, Space.DDR) else 1
        trouble = problem(region, sizes, alignment, layouts)
        if trouble:
            self.report.add(index, "region", f"{what}: {trouble}")
            return None
        return region

    def _dma(self, index: int, command: np.void, source: Region, target: Region) -> None:
        same = source.logical == target.logical and source.layout == target.layout == Layout.NHWC
        if not same:
            self.report.add(index, "extents", "DMA source and destination differ")
        constant = source.space in (Space.CONST, Space.QUANT)
        zero_point = None
        if not constant:
            record = next((r for r in self.memory.records if r.region.geometry == source.geometry), None)
            zero_point = record.zero_point if record else 0
            self.memory.read(index, DMA, source, zero_point, "src")
        self.memory.write(index, DMA, target, zero_point, constant=constant)

    def _conv(self, index: int, command: np.void, source: Region, target: Region) -> None:
        depth, outputs = source.logical[2], target.logical[2]
        groups = int(command["groups"])
        numbers = [int(command[key]) for key in ("kh", "kw", "sh", "sw", "dh", "dw")]
        if groups < 1 or depth % groups or outputs % groups or min(numbers) < 1:
            self.report.add(index, "extents", f"groups {groups} or geometry {numbers} do not suit {depth}->{outputs}")
            return
        if _conv_extents(command, source) != target.logical[:2]:
            self.report.add(index, "extents", f"dst {target.logical} is not the convolution of src {source.logical}")
        sizes = {
            "weights_offset": outputs * depth // groups * numbers[0] * numbers[1],
            "bias_offset": outputs * 4,
            "quant_offset": outputs * 4,
        }
        if command["weight_zp_offset"]:
            sizes["weight_zp_offset"] = outputs
        constants = [self._constant(index, command, name, size) for name, size in sizes.items()]
        self.memory.read(index, COMPUTE, source, int(command["input_zp"]), "src")
        self._clamps(index, command, "clamp_lo", "clamp_hi")
        zero_point = int(command["out_zp"])
        residual = None
        if command["residual"]["space"]:
            residual = self._addition(index, command, target)
            zero_point = int(command["c_zp"])
        elif any(command["residual"][name] for name in REGION.names or ()):
            self.report.add(index, "form", "a residual without a space")
        self._write(index, target, zero_point, [source, *constants], residual)

    def _constant(self, index: int, command: np.void, name: str, size: int) -> Region:
        region = span(Space.SRAM, int(command[name]), size)
        if region.end > self.spec.sram_bytes or region.start % self.spec.alignment:
            self.report.add(index, "region", f"{name} {region.start}..{region.end} is outside SRAM or misaligned")
        else:
            self.memory.read(index, COMPUTE, region, None, name)
        return region

    def _add(self, index: int, command: np.void, source: Region, target: Region) -> None:
        if source.logical != target.logical:
            self.report.add(index, "extents", "src and dst of the addition differ")
        self.memory.read(index, COMPUTE, source, int(command["a_zp"]), "src")
        residual = self._addition(index, command, target)
        self._write(index, target, int(command["c_zp"]), [source], residual)

    def _shuffle(self, index: int, command: np.void, source: Region, target: Region) -> None:
        if source.logical != target.logical:
            self.report.add(index, "extents", f"src {source.logical} and dst {target.logical} differ")
        record = next((r for r in self.memory.records if r.region.geometry == source.geometry), None)
        zero_point = (record.zero_point if record else 0) or 0
        self.memory.read(index, COMPUTE, source, zero_point, "src")
        self._write(index, target, zero_point, [source], None)

    def _addition(self, index: int, command: np.void, target: Region) -> Region | None:
        self._clamps(index, command, "add_lo", "add_hi")
        scales = [np.float32(command[key]) for key in ("a_scale", "b_scale", "c_scale")]
        if not all(np.isfinite(scale) and scale > 0 for scale in scales):
            self.report.add(index, "quantisation", f"scales {scales} of the addition")
        residual = self._region(index, command["residual"], "residual", self.sizes, _READS)
        if residual is None:
            return None
        stored = (target.rows, target.cols, target.channels)
        if residual.logical != stored:
            self.report.add(index, "extents", f"residual {residual.logical} against dst {stored}")
        self.memory.read(index, COMPUTE, residual, int(command["b_zp"]), "residual")
        return residual

    def _clamps(self, index: int, command: np.void, low: str, high: str) -> None:
        if command[low] > command[high]:
            self.report.add(index, "quantisation", f"{low} {command[low]} above {high} {command[high]}")

    def _write(
        self, index: int, target: Region, zero_point: int, operands: list[Region], residual: Region | None
    ) -> None:
        for operand in operands:
            if operand.meets(target):
                self.report.add(index, "overlap", f"dst overlaps an operand at {operand.start}..{operand.end}")
        if residual is not None and residual.meets(target):
            plain = residual.layout == target.layout == Layout.NHWC
            if not (plain and residual.geometry == target.geometry):
                self.report.add(index, "overlap", "dst overlaps the residual without being exactly it")
        self.memory.write(index, COMPUTE, target, zero_point, constant=False)


def _quant_findings(program: Program) -> list[Finding]:
    if len(program.quant) % 4:
        return [Finding("-", -1, "quantisation", f"table of {len(program.quant)} bytes is no list of float32")]
    table = program.quant.view("<f4")
    if np.isfinite(table).all() and (table >= 0).all():
        return []
    return [Finding("-", -1, "quantisation", "the table holds a multiplier that is negative or not finite")]


def _image(offset: int, height: int, width: int, channels: int) -> Region:
    return Region(Space.DDR, Layout.NHWC, 0, offset, height, width, channels, width * channels, channels)


def _conv_extents(command: np.void, source: Region) -> tuple[int, int]:
    rows, cols, _ = source.logical
    height = rows + int(command["pt"]) + int(command["pb"]) - int(command["dh"]) * (int(command["kh"]) - 1) - 1
    width = cols + int(command["pl"]) + int(command["pr"]) - int(command["dw"]) * (int(command["kw"]) - 1) - 1
    return height // int(command["sh"]) + 1, width // int(command["sw"]) + 1
