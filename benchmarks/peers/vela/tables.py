"""Reads the two tables that Vela writes for a net: the summary, and one row for each operator."""

from __future__ import annotations

import csv
from pathlib import Path

from benchmarks.peers.vela.results import NetResult, OperatorResult


def read_tables(net: str, folder: Path) -> NetResult:
    """The figures of `net` from the tables in `folder`."""
    (summary_path,) = folder.glob(f"{net}_summary_*.csv")
    (summary,) = _rows(summary_path)
    layers = _rows(folder / f"{net}_per-layer.csv")
    return NetResult(
        net=net,
        milliseconds=round(float(summary["inference_time"]) * 1000, 6),
        npu_cycles=int(float(summary["cycles_npu"])),
        dram_cycles=int(float(summary["cycles_dram_access"])),
        total_cycles=int(float(summary["cycles_total"])),
        sram_kib=float(summary["sram_memory_used"]),
        dram_mb_per_frame=round(int(summary["dram_total_bytes"]) / 1e6, 6),
        cpu_operators=tuple(row["Original Operator"] for row in layers if row["Target"] == "CPU"),
        convolutions=tuple(_convolution(row) for row in layers if row["NNG Operator"] == "Conv2D"),
    )


def _convolution(row: dict[str, str]) -> OperatorResult:
    cycles = [int(float(row[column])) for column in ("NPU", "Op Cycles")]
    return OperatorResult(row["Name"], int(float(row["MAC Count"])), *cycles)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
