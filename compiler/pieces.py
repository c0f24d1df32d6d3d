"""The bundle's descriptive pieces: memory map, kernel metadata, baseline profile, preprocess, meta.

Invariant: deterministic text; every JSON piece carries the build id.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence

from compiler import COMPILER_VERSION
from compiler.errors import CompileError
from compiler.program_builder import CompiledProfile, CompiledProgram
from compiler.report import ProgramReport
from contracts.npu import Program, load_spec

BASELINE_COLUMNS = (
    "target",
    "program",
    "profile",
    "array_model",
    "kernel",
    "microseconds",
    "ddr_bytes",
    "macs",
    "compute_us",
    "transfer_us",
    "overhead_us",
    "bound_by",
    "sram_peak",
)
_RESERVED = ("build_id", "release_version", "security_epoch", "targets", "profiles", "compiler")


def memory_map(build_id: str, target: str, programs: Mapping[str, CompiledProgram]) -> bytes:
    """``memory_map.json``."""
    body = {name: {p.name: _profile_map(p) for p in program.profiles} for name, program in programs.items()}
    spec = load_spec(target)
    return _json({"build_id": build_id, "target": target, "sram_bytes": spec.sram_bytes, "programs": body})


def kernel_metadata(
    build_id: str, target: str, programs: Mapping[str, CompiledProgram], reports: Mapping[str, ProgramReport]
) -> bytes:
    """``kernel_metadata.json``."""
    body = {}
    for name, program in programs.items():
        report = reports[name]
        body[name] = {
            "operators_before": report.operators_before,
            "launches": report.launches,
            "kernels": _kernels(program),
            "unfused": [vars(edge) for edge in report.unfused],
            "changes": list(report.changes),
        }
    return _json({"build_id": build_id, "target": target, "programs": body})


def profile_baseline(target: str, programs: Mapping[str, CompiledProgram]) -> bytes:
    """``profile_baseline.csv``: a row for each program, profile, array model and kernel, and ``total`` rows."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(BASELINE_COLUMNS)
    for name, program in programs.items():
        for profile in program.profiles:
            writer.writerows(_rows(target, name, profile))
    return text.getvalue().encode()


def preprocess(build_id: str, programs: Mapping[str, CompiledProgram]) -> bytes:
    """``preprocess.json``: how a frame becomes input bytes, for each program and profile."""
    body = {}
    for name, compiled in programs.items():
        profiles = Program.open(compiled.data).profiles
        body[name] = {
            profile.name: {
                "input": list(profile.input),
                "scale": profile.input_scale,
                "zero_point": profile.input_zero_point,
                "outputs": {output.name: [output.height, output.width, output.channels] for output in profile.outputs},
            }
            for profile in profiles
        }
    head = {"build_id": build_id, "colour": "RGB", "range": "full", "layout": "NHWC", "type": "uint8"}
    return _json({**head, "programs": body})


def meta_json(
    build_id: str,
    meta: Mapping[str, object],
    targets: Sequence[str],
    profiles: Sequence[str],
    release_version: str,
    security_epoch: int,
) -> bytes:
    """``meta.json``: the caller's fields and the release facts; raises CompileError when they collide."""
    clash = sorted(set(meta) & set(_RESERVED))
    if clash:
        raise CompileError("meta", f"field {clash[0]} is set by the compiler", "rename the field")
    facts = {
        "build_id": build_id,
        "release_version": release_version,
        "security_epoch": security_epoch,
        "targets": list(targets),
        "profiles": list(profiles),
        "compiler": COMPILER_VERSION,
    }
    try:
        return _json({**meta, **facts})
    except (TypeError, ValueError) as error:
        raise CompileError("meta", f"not representable as JSON ({error})", "use plain values") from error


def _profile_map(profile: CompiledProfile) -> dict[str, object]:
    plan = profile.plan
    buffers = [
        {
            "name": buffer.name,
            "space": plan.homes[buffer.name].space.name,
            "offset": plan.homes[buffer.name].offset,
            "size": buffer.size,
            "first_step": buffer.first,
            "last_step": buffer.last,
            "values": list(buffer.values),
        }
        for buffer in sorted(plan.buffers, key=lambda b: (plan.homes[b.name].space, plan.homes[b.name].offset, b.first))
    ]
    return {
        "peak": plan.peak,
        "lower_bound": plan.bound,
        "gap": round(plan.gap, 6),
        "planner": plan.method,
        "naive_peak": profile.naive_sram,
        "weights_resident": plan.weights_resident,
        "ddr_extent": plan.ddr_extent,
        "reasons": list(plan.reasons),
        "buffers": buffers,
    }


def _kernels(program: CompiledProgram) -> list[dict[str, object]]:
    kernels = []
    for index, kernel in enumerate(program.profiles[0].schedule.kernels):
        macs = {
            profile.name: next(k.macs for k in profile.ideal.kernels if k.name == kernel.name)
            for profile in program.profiles
        }
        kernels.append(
            {
                "index": index,
                "name": kernel.name,
                "commands": len(kernel.steps),
                "nodes": list(kernel.origin),
                "macs": macs,
            }
        )
    return kernels


def _rows(target: str, program: str, profile: CompiledProfile) -> list[list[object]]:
    rows: list[list[object]] = []
    for frame in profile.estimates:
        head = [target, program, profile.name, frame.array_model]
        for kernel in frame.kernels:
            times = [kernel.compute_ns, kernel.transfer_ns, kernel.overhead_ns]
            parts = [f"{value / 1000:.3f}" for value in times]
            cells = [
                f"{kernel.total_ns / 1000:.3f}",
                kernel.ddr_bytes,
                kernel.macs,
                *parts,
                kernel.bound_by,
                "",
            ]
            rows.append([*head, kernel.name, *cells])
        sums = [sum(getattr(k, part) for k in frame.kernels) for part in ("compute_ns", "transfer_ns", "overhead_ns")]
        parts = [f"{value / 1000:.3f}" for value in sums]
        total = [f"{frame.total_ns / 1000:.3f}", frame.ddr_bytes, frame.macs, *parts, "", profile.plan.peak]
        rows.append([*head, "total", *total])
    return rows


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()
