"""Emulated microseconds: the operator table of the searched space, and the hand-made network as a whole.

The target is the demo's larger device class, the size that of the people's recordings. Measured once and kept.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.teaching.eta import Tell
from benchmarks.teaching.kept import kept, sources
from benchmarks.teaching.plain import PlainNet
from benchmarks.teaching.plain_export import exported
from benchmarks.teaching.sharing import SPACE
from compiler.driver import compile_program
from contracts.lab import LabClient
from flows.search.table import OperatorTable, measure_table
from flows.tasks.vsr.architecture import Architecture

TARGET, SIZE = "npu-4t", (240, 320)
PROFILE = f"{SIZE[0]}x{SIZE[1]}"
LAB = (sys.executable, "-m", "edge_agent.lab")
_FRAMES = 6


@dataclass(frozen=True)
class Latencies:
    """Costs of every block of the space, and of the hand-made network; microseconds."""

    table: OperatorTable
    plain_us: float

    def of(self, architecture: Architecture) -> float:
        """Predicted microseconds of a frame."""
        return self.table.latency_us(architecture, TARGET, PROFILE)

    def ratio(self, architecture: Architecture) -> float:
        """Relative to the hand-made network."""
        return self.of(architecture) / self.plain_us


def latencies(tell: Tell | None = None) -> Latencies:
    """Measure, or read what was measured with the same code."""
    configuration = {"target": TARGET, "size": SIZE, "space": repr(SPACE)}
    at = kept("operators", 0, configuration, sources("compiler", "flows/search", "flows/quant", "flows/tasks/vsr"))
    path = at.folder / "table.json"
    if at.result is None or not path.is_file():
        table = measure_table(
            SPACE, SPACE.trunks, (TARGET,), (SIZE,), LAB,
            lambda share: tell(share, "measuring operators") if tell else None,
        )  # fmt: skip
        path.write_text(table.to_json())
        at.finish({"plain_us": measured_us(plain_model()), "rows": len(table.rows)})
    result = at.result
    assert result is not None
    return Latencies(OperatorTable.from_json(path.read_text()), float(result["plain_us"]))


def plain_model() -> bytes:
    """The hand-made network with the weights it begins with; times depend on shapes only."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return exported(PlainNet(), torch.rand(1, 3, 32, 32))


def measured_us(model: bytes) -> float:
    """Median of the first frames of a whole network."""
    with LabClient([*LAB, "--device-class", TARGET]) as lab:
        lab.load_program(compile_program(model, TARGET, (SIZE,))[0], "whole")
        frames = np.zeros((_FRAMES, *SIZE, 3), np.uint8)
        return 1e3 * float(np.median(lab.run("whole", frames).latency_ms))
