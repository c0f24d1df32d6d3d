"""What ``edgeloop inspect`` shows, as plain values read back from a bundle or a program file.

Reads only what the file itself says, so it works on bundles that another compiler version made.
"""

from __future__ import annotations

from pathlib import Path

from compiler.timing import FrameEstimate, estimate
from contracts.bundle import Bundle
from contracts.npu import Op, Program, load_spec


def inspect_file(path: Path) -> dict[str, object]:
    """Facts of a bundle (``*.elb``) or a program (``*.npu``); raises BundleError, ProgramError or OSError."""
    if path.suffix == ".npu":
        program = Program.open(path.read_bytes())
        return {"file": path.name, "programs": [_program("program", program, {}, {})]}
    bundle = Bundle.open(path)
    programs = [
        _program(name, bundle.program(target, name), _piece(bundle, target, "memory_map", name), kernels)
        for target in bundle.targets
        for name in ("model", "quality")
        if f"{target}/{name}.npu" in bundle.names
        for kernels in (_piece(bundle, target, "kernel_metadata", name),)
    ]
    return {
        "file": path.name,
        "size": bundle.size,
        "digest": bundle.digest,
        "build_id": bundle.manifest.build_id,
        "release_version": bundle.manifest.release_version,
        "security_epoch": bundle.manifest.security_epoch,
        "pieces": {name: record.length for name, record in bundle.manifest.pieces.items()},
        "programs": programs,
    }


def _piece(bundle: Bundle, target: str, piece: str, program: str) -> dict[str, object]:
    name = f"{target}/{piece}.json"
    if name not in bundle.names:
        return {}
    return dict(bundle.json(name).get("programs", {}).get(program, {}))


def _program(name: str, program: Program, memory: dict[str, object], kernels: dict[str, object]) -> dict[str, object]:
    return {
        "program": name,
        "target": program.target,
        "build_id": program.build_id.hex(),
        "constants_bytes": len(program.constants),
        "quant_bytes": len(program.quant),
        "operators_before": kernels.get("operators_before"),
        "unfused": kernels.get("unfused", []),
        "profiles": [_profile(program, index, memory) for index in range(len(program.profiles))],
    }


def _profile(program: Program, index: int, memory: dict[str, object]) -> dict[str, object]:
    profile = program.profiles[index]
    spec = load_spec(program.target)
    commands = program.commands(index)
    frame = commands[profile.n_prologue :]
    estimates = [estimate(frame, program.names, spec, model) for model in spec.array_models]
    known = memory.get(profile.name)
    plan: dict[str, object] = known if isinstance(known, dict) else {}
    return {
        "profile": profile.name,
        "input": list(profile.input),
        "outputs": {output.name: [output.height, output.width, output.channels] for output in profile.outputs},
        "commands": int((commands["op"] != Op.END).sum()),
        "prologue": profile.n_prologue,
        "launches": estimates[0].launches,
        "macs": estimates[0].macs,
        "ddr_bytes": profile.ddr_bytes,
        "sram_peak": profile.sram_peak,
        "sram_bytes": spec.sram_bytes,
        "sram_lower_bound": plan.get("lower_bound"),
        "naive_sram": plan.get("naive_peak"),
        "reasons": plan.get("reasons", []),
        "latency_ms": {frame_time.array_model: round(frame_time.milliseconds, 6) for frame_time in estimates},
        "kernels": _kernels(estimates),
    }


def _kernels(estimates: list[FrameEstimate]) -> list[dict[str, object]]:
    rows = []
    for parts in zip(*(frame.kernels for frame in estimates), strict=True):
        microseconds = {
            frame.array_model: round(kernel.total_ns / 1000, 3) for frame, kernel in zip(estimates, parts, strict=True)
        }
        first = parts[0]
        rows.append(
            {
                "kernel": first.name,
                "microseconds": microseconds,
                "macs": first.macs,
                "ddr_bytes": first.ddr_bytes,
                "bound_by": first.bound_by,
            }
        )
    return rows
