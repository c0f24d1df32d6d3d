"""What the builds service tells of a bundle: one program of two sizes, and one frame of it."""

from __future__ import annotations

from tests.dashboard.twin.state import EVIL, NEW


def bundle_report(build_id: str, slower: float) -> dict[str, object]:
    """What the builds service tells of a bundle with one program of two sizes."""
    profiles = [
        {
            "number": number,
            "profile": name,
            "input": [1, rows, 640, 3],
            "answers": {"fits": "yes", "limited by": "compute"},
            "commands": 900,
            "launches": 7,
            "dispatches": 90,
            "macs": 12_000_000 * rows,
            "ddr_bytes": 920_000,
            "ddr_intermediate_bytes": 0,
            "sram_peak": 800_000,
            "sram_bytes": 1_048_576,
            "sram_lower_bound": 780_000,
            "latency_ms": {"u85-like": round(0.01 * rows * slower, 6), "ideal": 0.007 * rows},
        }
        for number, (name, rows) in enumerate((("360x640", 360), ("180x640", 180)))
    ]
    placement = [{"name": "conv1", "unit": "NPU", "reason": f"fused {EVIL}", "nodes": ["Conv_0", "Relu_1"]}]
    placement.append({"name": "resize", "unit": "CPU", "reason": "no such operator", "nodes": ["Resize_9"]})
    program = {"program": "model", "target": "npu-4t", "core": "big", "constants_bytes": 40_960, "profiles": profiles}
    program |= {
        "constants_stored": 36_864,
        "decode_ms": 0.112,
        "constants_note": f"constants coded: 36,864 bytes {EVIL}",
    }
    edges = [{"producer": "conv1", "consumer": "resize", "reason": "runs on the CPU"}]
    return {
        "build_id": build_id,
        "digest": NEW,
        "size": int(912_384 * slower),
        "release_version": "2026.11.3",
        "security_epoch": 1,
        "pieces": {"npu-4t/model.npu": 700_000, "manifest.json": 2_000},
        "programs": [{**program, "placement": placement, "unfused": edges}],
    }


def frame_report(number: int) -> dict[str, object]:
    """One frame of that bundle: two kernels, three ranges, three lanes."""
    model = {"u85-like": 1_800.0, "ideal": 1_300.0}
    kernels = [
        {
            "kernel": name,
            "microseconds": model,
            "bound_by": {"u85-like": "compute", "ideal": "ddr"},
            "macs": 1_000,
            "ddr_bytes": 0,
            "launches": 1,
            "dispatches": 9,
            "operations": ["CONV"],
        }
        for name in ("conv1", "resize")
    ]
    kinds = (
        ("weights", 0, 40_000, 0.0, 3.6e6),
        ("map", 40_000, 400_000, 0.1e6, 2e6),
        ("ring", 40_000, 90_000, 2e6, 3e6),
    )
    ranges = [
        {"space": "SRAM", "offset": at, "size": size, "begin_ns": start, "end_ns": stop, "kind": kind, "label": kind}
        for kind, at, size, start, stop in kinds
    ]
    lanes = [
        {"name": name, "queue": queue, "busy_ns": 1.5e6, "spans": [[0.0, 1e6], [2e6, 2.5e6]]}
        for name, queue in (("conv1", "compute"), ("resize", "compute"), ("DMA: weights", "dma"))
    ]
    return {
        "number": number,
        "target": "npu-4t",
        "core": "big",
        "program": "model",
        "profile": "360x640",
        "array_model": "u85-like",
        "frame_ns": 3.6e6,
        "sram_bytes": 1_048_576,
        "sram_peak": 440_000,
        "kernels": kernels,
        "ranges": ranges,
        "lanes": lanes,
    }
