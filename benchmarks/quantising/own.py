"""Ours: calibration, rounding after training, and training in stages, from the same start and with the same patches."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.quantising.material import Material
from benchmarks.quantising.steps import train
from benchmarks.quantising.twin import QuantPlainNet, export_plain
from benchmarks.teaching.anchor import load_anchor
from flows.quant.calibrate import calibrate
from flows.quant.stages import FACTORS, StagePlan, train_in_stages
from flows.tasks.training import Budget, Progress

TEACHER_SHARE = 0.3


@dataclass(frozen=True)
class Way:
    """One way to quantise: `plan` None trains all at once, `steps` False rounds only."""

    trained: bool = True
    pinned: bool = True
    plan: StagePlan | None = None
    taught: bool = False


WAYS = {
    "ptq": Way(trained=False),
    "ptq_free_ends": Way(trained=False, pinned=False),
    "own": Way(plan=StagePlan()),
    "own_at_once": Way(),
    "own_taught": Way(plan=StagePlan(), taught=True),
}


@dataclass(frozen=True)
class Made:
    """The trained twin, its ONNX and CPU seconds of the training."""

    network: QuantPlainNet
    model: bytes
    cpu_s: float


def quantise(
    way: Way, start: Path, seed: int, steps: int, rate: float, material: Material, progress: Progress | None = None,
    checkpoint: Path | None = None,
) -> Made:  # fmt: skip
    """The start's quantised twin."""
    begun = time.process_time()
    torch.manual_seed(seed)
    net = load_anchor(start)
    twin = QuantPlainNet(net, pinned=way.pinned)
    batches = material.calibration(seed)
    calibrate(twin, batches)
    if way.trained:
        teacher = load_anchor(start).eval()

        def loss_of(step: int) -> Tensor:
            low, high = material.batch(seed, step)
            if way.taught:
                with torch.no_grad():
                    high = (1.0 - TEACHER_SHARE) * high + TEACHER_SHARE * teacher(low)
            return F.l1_loss(twin(low), high)

        if way.plan is None:
            train(twin, twin, seed, steps, rate, material, progress, FACTORS)
        else:
            train_in_stages(
                twin, lambda step, _random: loss_of(step), batches, Budget(steps=steps), rate=rate, plan=way.plan,
                seed=seed, progress=progress, checkpoint=checkpoint,
            )  # fmt: skip
    spent = time.process_time() - begun
    return Made(twin, export_plain(twin), spent)
