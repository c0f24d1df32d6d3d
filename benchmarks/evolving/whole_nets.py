"""The operator table's prediction of whole networks against the emulated device that runs them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from compiler.driver import compile_program
from contracts.lab import LabClient
from flows.quant.calibrate import calibrate
from flows.quant.export import export_vsr
from flows.quant.networks import QuantVsrNet
from flows.search.table import OperatorTable, measure_table
from flows.steps.context import PROFILES, TARGETS
from flows.tasks.vsr.architecture import DEFAULT_SPACE, HAND_MADE, Architecture
from flows.tasks.vsr.net import VsrNet

LAB = (sys.executable, "-m", "edge_agent.lab")
FIRST_FRAMES = 10


@dataclass(frozen=True)
class Comparison:
    """Microseconds of one network on one target at one size: predicted, and the median of its first frames."""

    architecture: Architecture
    target: str
    size: str
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Relative error of the prediction, signed."""
        return self.predicted / self.measured - 1.0


def compare(count: int, seed: int, tell: Callable[[float], None]) -> tuple[OperatorTable, list[Comparison]]:
    """`count` networks drawn from the default space (and the hand-made one) on every target and profile."""
    table = measure_table(DEFAULT_SPACE, (HAND_MADE.trunk,), TARGETS, PROFILES, LAB, lambda share: tell(0.4 * share))
    rng = np.random.default_rng(seed)
    networks = [HAND_MADE, *(DEFAULT_SPACE.sample(rng) for _ in range(count))]
    models = [random_model(network) for network in networks]
    rows: list[Comparison] = []
    for place, target in enumerate(TARGETS):
        with LabClient([*LAB, "--device-class", target]) as lab:
            for index, (network, model) in enumerate(zip(networks, models, strict=True)):
                lab.load_program(compile_program(model, target, PROFILES)[0], "whole")
                for rows_, columns in PROFILES:
                    frames = np.zeros((FIRST_FRAMES, rows_, columns, 3), np.uint8)
                    measured = 1e3 * float(np.median(lab.run("whole", frames).latency_ms))
                    size = f"{rows_}x{columns}"
                    rows.append(Comparison(network, target, size, table.latency_us(network, target, size), measured))
                tell(0.4 + 0.6 * (place + (index + 1) / len(networks)) / len(TARGETS))
    return table, rows


def random_model(architecture: Architecture) -> bytes:
    """QDQ ONNX of a network with random weights; times depend on shapes only."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = QuantVsrNet(VsrNet(architecture))
        calibrate(network, [torch.rand(1, 3, 32, 32)])
    return export_vsr(network)
