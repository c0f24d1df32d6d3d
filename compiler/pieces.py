"""The bundle's descriptive pieces: memory map, kernel metadata, baseline profile, preprocess, meta.

Invariant: deterministic text; every JSON piece carries the build id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from compiler import COMPILER_VERSION
from compiler.errors import CompileError
from compiler.measures.baseline import BASELINE_COLUMNS, profile_baseline
from compiler.measures.compiled import operators, placement, usages
from compiler.measures.kernels import KernelUsage
from compiler.program_builder import CompiledProfile, CompiledProgram
from compiler.report import ProgramReport
from compiler.schedule import Kernel
from contracts.npu import Program, load_spec

__all__ = [
    "BASELINE_COLUMNS",
    "kernel_metadata",
    "memory_map",
    "meta_json",
    "preprocess",
    "profile_baseline",
]

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
            "core": report.core,
            "operators_before": report.operators_before,
            "launches": report.launches,
            "kernels": _kernels(program),
            "operators": operators(program.profiles[0].schedule.graph),
            "unfused": [vars(edge) for edge in report.unfused],
            "changes": list(report.changes),
            **({"constants": program.coding.note} if program.coding.note else {}),
        }
    return _json({"build_id": build_id, "target": target, "programs": body})


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
        "proof": plan.proof,
        "effort": profile.effort,
        "naive_peak": profile.naive_sram,
        "weights_resident": plan.weights_resident,
        "ddr_extent": plan.ddr_extent,
        "reasons": list(plan.reasons),
        "segments": [{"first": first, "last": last, "rows": rows} for first, last, rows in profile.segments],
        "notes": list(profile.notes),
        "buffers": buffers,
    }


def _kernels(program: CompiledProgram) -> list[dict[str, object]]:
    """Every kernel of any profile, in the order of NAMES; counts are by profile, as widths may lack kernels."""
    usage = {p.name: {k.name: k for k in usages(p, program.names)[0].kernels} for p in program.profiles}
    kernels = {k.name: k for profile in reversed(program.profiles) for k in profile.schedule.kernels}
    return [
        _kernel(index, kernels[name], {profile: found[name] for profile, found in usage.items() if name in found})
        for index, name in enumerate(program.names)
        if name in kernels
    ]


def _kernel(index: int, kernel: Kernel, usage: Mapping[str, KernelUsage]) -> dict[str, object]:
    unit, reason = placement(kernel)
    counted = ("macs", "commands", "stripes", "launches", "dispatches", "ddr_bytes")
    return {
        "index": index,
        "name": kernel.name,
        "unit": unit,
        "reason": reason,
        "nodes": list(kernel.origin),
        **{field: {profile: getattr(found, field) for profile, found in usage.items()} for field in counted},
    }


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()
