"""What a stream costs, counted from the stream: bytes over the DDR bus, highest byte of SRAM."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.verifier.commands import Command
from compiler.verifier.findings import Report
from contracts.npu import NpuSpec, Op, Profile, Space

_OUTSIDE = (Space.DDR, Space.CONST, Space.QUANT)


def check_traffic(report: Report, profile: Profile, spec: NpuSpec, commands: Sequence[Command], sram_end: int) -> None:
    """The profile says what the stream does; the SRAM peak up to the padding that alignment needs."""
    moved = sum(ddr_bytes(command) for command in commands[max(0, profile.n_prologue) :])
    if moved != profile.ddr_bytes:
        report.add(-1, "profile", f"ddr_bytes {profile.ddr_bytes}, the stream moves {moved}")
    if not sram_end <= profile.sram_peak < sram_end + spec.alignment:
        report.add(-1, "profile", f"sram_peak {profile.sram_peak}, the stream uses {sram_end} bytes")


def ddr_bytes(command: Command) -> int:
    """Bytes that one command moves over the bus."""
    if command.op == Op.END:
        return 0
    regions = [region for region in (command.src, command.residual, command.dst) if region.space]
    if command.op == Op.DMA:
        return sum(region.size for region in regions if region.space in _OUTSIDE)
    return sum(region.size for region in regions if region.space == Space.DDR)
