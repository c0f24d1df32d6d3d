"""What the checks of single operations share: the memory, the stripes, and the rules of operands."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from compiler.verifier.constants import Range, Roles
from compiler.verifier.findings import Report
from compiler.verifier.launches import Launches
from compiler.verifier.limits import LIMITS
from compiler.verifier.memory import Memory
from compiler.verifier.operand import Operand
from compiler.verifier.queues import COMPUTE
from compiler.verifier.regions import Region, image, problem, span
from compiler.verifier.stripes import Stripes
from compiler.verifier.values import UNKNOWN
from compiler.verifier.witness import Witness
from contracts.npu import Layout, NpuSpec, Profile, Program, Space

READS = (Layout.NHWC, Layout.S2D, Layout.NEAREST)
WRITES = (Layout.NHWC, Layout.D2S)


class Frame:
    """One profile on its way through the stream."""

    def __init__(self, program: Program, spec: NpuSpec, profile: Profile, roles: Roles) -> None:
        self.program = program
        self.spec = spec
        self.profile = profile
        self.report = Report(profile.name)
        self.memory = Memory(self.report, profile.n_prologue, spec.alignment, roles)
        self.launches = Launches(self.report)
        self.stripes = Stripes(self.report, self.launches, self.memory, profile.streams == 1)
        self.sizes: dict[int, int] = {
            Space.SRAM: spec.sram_bytes,
            Space.DDR: max(0, min(profile.ddr_extent, spec.ddr_bytes)),
        }
        self.sources = {Space.CONST: len(program.constants), Space.QUANT: len(program.quant), **self.sizes}
        self.witness = Witness()
        self.sram_end = 0
        self.rows = 0

    def region(
        self, index: int, region: Region, what: str, layouts: tuple[Layout, ...], sizes: dict[int, int] | None = None
    ) -> Region | None:
        """The region when it is sound on its own, else a finding and None."""
        trouble = problem(region, self.sizes if sizes is None else sizes, layouts)
        self.rows += region.rows
        if trouble is None and self.rows > LIMITS.rows:
            trouble = f"the stream touches more than {LIMITS.rows} rows"
        if trouble:
            self.report.add(index, "region", f"{what}: {trouble}")
            return None
        if region.space == Space.SRAM:
            self.sram_end = max(self.sram_end, region.end)
        return region

    def operand(self, index: int, region: Region, zero_point: int | None, what: str) -> Operand:
        """A command of the compute queue reads a tensor."""
        reading = self.memory.read(index, COMPUTE, region, zero_point, what)
        row = reading.row
        if region.layout == Layout.S2D:
            if row % region.block:
                self.report.add(index, "rows", f"{what} begins within a block, at row {row}")
            row //= region.block
        elif region.layout == Layout.NEAREST:
            row *= region.block
        return Operand(region, reading.value, reading.row, row)

    def whole(self, index: int, operand: Operand, what: str) -> None:
        """The operand has to be a whole map."""
        if operand.value == UNKNOWN:
            return
        if operand.row:
            self.report.add(index, "rows", f"{what} begins at row {operand.row}")
        if any(self.memory.values.cut(operand.value)):
            self.report.add(index, "rows", f"{what} misses columns of its map")
        self.stripes.last(index, operand.value, operand.end)

    def constant(self, index: int, offset: int, size: int, role: str) -> tuple[Range, ...]:
        """A command reads constants from SRAM; () after a finding."""
        if offset + size > self.spec.sram_bytes or offset % self.spec.alignment:
            self.report.add(index, "region", f"{role} {offset}..{offset + size} is outside SRAM or misaligned")
            return ()
        self.sram_end = max(self.sram_end, offset + size)
        return self.memory.constants(index, offset, size, role)

    def scale(self, index: int, operand: Operand, scale: float, what: str) -> None:
        """The reader's scale is the writer's."""
        if not self.memory.values.says(operand.value, abs(scale)):
            known = self.memory.values.scale[operand.value]
            self.report.add(index, "quantisation", f"{what} has scale {known}, the command says {abs(scale)}")

    def clamp(self, index: int, low: int, high: int) -> None:
        """A range of bytes is not empty."""
        if low > high:
            self.report.add(index, "quantisation", f"clamp from {low} to {high}")

    def apart(self, index: int, target: Region, operand: Region, what: str) -> None:
        """The target shares no byte with an operand."""
        if operand.meets(target):
            self.report.add(index, "overlap", f"dst overlaps {what} at {operand.offset}..{operand.end}")

    def apart_from_constants(self, index: int, target: Region, offset: int, size: int, what: str) -> None:
        """The target shares no byte with constants of its command."""
        self.apart(index, target, span(Space.SRAM, offset, size), what)

    def value(self, name: Hashable, sources: tuple[int, ...], zero_point: int, scale: float | None = None) -> int:
        """The value of a result; UNKNOWN when a source is. Rows of it are counted from where its operation begins
        to read.
        """
        whole = name, self.stripes.base(name)
        return UNKNOWN if UNKNOWN in sources else self.memory.values.intern(whole, zero_point, scale)

    def write(self, index: int, target: Region, value: int, row: int) -> None:
        """A command of the compute queue writes logical rows from ``row``."""
        stored = row * target.block if target.layout == Layout.D2S else row
        self.memory.write(index, COMPUTE, target, value, stored)

    def image(self, index: int, offset: int, extents: tuple[int, int, int], what: str) -> Region | None:
        """The input or an output: a dense map in DDR, at a multiple of the alignment."""
        if offset % self.spec.alignment:
            self.report.add(index, "region", f"{what} at {offset} is not at a multiple of {self.spec.alignment}")
            return None
        return self.region(index, image(offset, *extents), what, (Layout.NHWC,))

    def input_scale(self) -> float:
        """The scale of the input as the stream writes it."""
        return float(np.float32(self.profile.input_scale))
