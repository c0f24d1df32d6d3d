"""What ``edgeloop inspect --json`` prints: plain values read back from a bundle or a program file.

Reads only what the file itself says, so it works on bundles that another compiler version made.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from compiler.measures.answers import view_answers
from compiler.measures.kernels import KernelUsage
from compiler.measures.views import FileView, ProfileView, ProgramView, view_file


def inspect_file(path: Path) -> dict[str, object]:
    """Facts of a bundle (``*.elb``) or a program (``*.npu``); raises BundleError, ProgramError or OSError."""
    return facts(view_file(path))


def facts(view: FileView) -> dict[str, object]:
    """The JSON form of a view."""
    programs = [_program(program) for program in view.programs]
    if not view.release:
        return {"file": view.file, "size": view.size, "programs": programs}
    return {
        "file": view.file,
        "size": view.size,
        **view.release,
        "pieces": dict(view.pieces),
        "programs": programs,
    }


def _program(view: ProgramView) -> dict[str, object]:
    return {
        "program": view.name,
        "target": view.target,
        "core": view.core,
        "build_id": view.program.build_id.hex(),
        "constants_bytes": len(view.program.constants),
        "constants_stored": view.coding.stored,
        "decode_ms": round(view.coding.decode_ms, 6),
        "constants_note": view.constants_note,
        "quant_bytes": len(view.program.quant),
        "operators_before": view.kernels.get("operators_before"),
        "placement": [dict(entry) for entry in view.placement],
        "operators": list(view.kernels.get("operators", ())),
        "unfused": [dict(edge) for edge in view.unfused],
        "changes": list(view.changes),
        "profiles": [_profile(view, profile) for profile in view.profiles],
    }


def _profile(program: ProgramView, view: ProfileView) -> dict[str, object]:
    profile, plan = view.profile, view.plan
    frames = {frame.model.name: frame for frame in view.frames}
    usage = view.frame().usage
    return {
        "profile": profile.name,
        "answers": dict(view_answers(program, view)),
        "input": list(profile.input),
        "outputs": {output.name: [output.height, output.width, output.channels] for output in profile.outputs},
        "commands": view.command_count,
        "prologue": profile.n_prologue,
        "launches": int(usage.sum("launches")),
        "dispatches": int(usage.sum("dispatches")),
        "macs": int(usage.sum("macs")),
        "ddr_bytes": profile.ddr_bytes,
        "ddr_intermediate_bytes": view.spilled,
        "sram_peak": profile.sram_peak,
        "sram_bytes": view.spec.sram_bytes,
        "sram_lower_bound": plan.get("lower_bound"),
        "naive_sram": plan.get("naive_peak"),
        "planner": plan.get("planner"),
        "proof": plan.get("proof"),
        "sram_gap": plan.get("gap"),
        "effort": plan.get("effort"),
        "segments": plan.get("segments", []),
        "notes": plan.get("notes", []),
        "reasons": plan.get("reasons", []),
        "latency_ms": {name: round(frame.estimate.milliseconds, 6) for name, frame in frames.items()},
        "bare_ms": {name: round(frame.estimate.bare_milliseconds, 6) for name, frame in frames.items()},
        "hidden_dma_share": {name: round(frame.estimate.dma_hidden_share, 6) for name, frame in frames.items()},
        "ddr_efficiency": {name: round(frame.estimate.ddr_efficiency(view.spec), 6) for name, frame in frames.items()},
        "kernels": [
            _kernel({name: frame.usage.kernels[index] for name, frame in frames.items()})
            for index in range(len(usage.kernels))
        ],
        "ranges": [{**asdict(entry), "space": entry.space.name} for entry in view.ranges],
    }


def _kernel(found: dict[str, KernelUsage]) -> dict[str, object]:
    first = next(iter(found.values()))
    return {
        "kernel": first.name,
        "microseconds": {name: round(kernel.total_ns / 1000, 3) for name, kernel in found.items()},
        "wait_us": {name: round(kernel.wait_ns / 1000, 3) for name, kernel in found.items()},
        "bound_by": {name: kernel.bound_by for name, kernel in found.items()},
        "macs": first.macs,
        "ddr_bytes": first.ddr_bytes,
        "launches": first.launches,
        "dispatches": first.dispatches,
        "commands": first.commands,
        "operations": list(first.operations),
        "sram_top": first.sram_top,
    }
