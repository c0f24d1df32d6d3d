"""Quantisation-aware training of an x2 network, and the whole step from float network to proven INT8 model.

Calibrate on both conditions and, where one is given, on a calibration set; then train weights and scales together,
scales ten times slower, or in stages (`flows.quant.stages`). The float network is the teacher: its output is mixed into
the target, so that training does not drift to the few patches it sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from flows.data.clips import Frames
from flows.data.pairs import PairSet
from flows.quant.adaround import adaround
from flows.quant.calibrate import Grid, calibrate
from flows.quant.export import Agreement, ExportError
from flows.quant.stages import FACTORS, StagePlan, train_in_stages
from flows.quant.ties import proven_off_ties
from flows.tasks.device import CPU, on_training_device
from flows.tasks.task import Task
from flows.tasks.training import Budget, Loop, Progress, one_thread, parameters_of
from flows.tasks.vsr.metrics import Metrics, evaluate
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.task import VSR
from flows.tasks.vsr.train import TrainSettings, finetune, mixed_batch

QAT_SETTINGS = TrainSettings(batch=12, patch=32, rate=2e-4)
_CALIBRATION_BATCHES = 24


@dataclass(frozen=True)
class QuantOptions:
    """Ways to begin better than by rounding to nearest; each is off unless asked for.

    equalise   cross-layer equalisation of the float network (its function stays the same, bit for bit)
    kl         ranges of least KL divergence as candidates of calibration
    adaround   rounding of weights by what it does to each layer's output, before training
    plan       training in stages instead of all at once
    teacher    share of the float network's output in the target, 0 to 1
    """

    equalise: bool = False
    kl: bool = False
    adaround: bool = False
    plan: StagePlan | None = None
    teacher: float = 0.3

    def __post_init__(self) -> None:
        if not 0.0 <= self.teacher <= 1.0:
            raise ValueError(f"the teacher's share is {self.teacher}; give 0 to 1")


@dataclass(frozen=True)
class Quantised:
    """A trained INT8 network: the torch twin, the ONNX bytes, its grids and how exactly ONNX Runtime agrees."""

    network: nn.Module
    model: bytes
    grids: dict[str, Grid]
    agreement: Agreement


@dataclass(frozen=True)
class Candidate:
    """What a retrain run hands on: float network, INT8 model, and metrics by condition for both."""

    net: nn.Module
    quantised: Quantised
    float_metrics: dict[str, Metrics]
    int8_metrics: dict[str, Metrics]


def qat(
    net: nn.Module,
    normal: PairSet,
    hard: PairSet | None,
    budget: Budget | None,
    *,
    settings: TrainSettings = QAT_SETTINGS,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    options: QuantOptions | None = None,
    calibration: Sequence[Tensor] = (),
    task: Task = VSR,
) -> Quantised:
    """INT8 version of `net`, which is left as it is. Without a budget: post-training quantisation only.

    `calibration` are batches [n, 3, h, w] in 0..1, of a calibration set for instance, that ranges must hold as well.
    Raises ExportError when the exported model does not compute what the fake-quantised network computes.
    """
    chosen = options or QuantOptions()
    network = task.quantised(net, equalise=chosen.equalise)
    random = np.random.default_rng(settings.seed)
    batches = [mixed_batch(normal, hard, settings, random)[0] for _ in range(_CALIBRATION_BATCHES)]
    batches += calibration
    grids = calibrate(network, batches, kl=chosen.kl)
    if chosen.adaround and chosen.plan is None:
        adaround(network, batches)
    if budget is not None:
        with on_training_device(net.eval()) as device:
            loss = _Loss(task, network, net, normal, hard, settings, chosen.teacher, device)
            if chosen.plan is None:
                _train(network, loss, budget, settings, progress, checkpoint)
            else:
                train_in_stages(
                    network, loss, batches, budget, rate=settings.rate, plan=chosen.plan, seed=settings.seed,
                    checkpoint=checkpoint, progress=progress,
                )  # fmt: skip
    model, found = proven_off_ties(network, task.export, _proof_frames(normal, hard))
    return Quantised(network.eval(), model, grids, found)


def make_candidate(
    start: VsrNet,
    normal: PairSet,
    hard: PairSet,
    *,
    tune: Budget,
    quantise: Budget,
    judge: dict[str, PairSet],
    settings: TrainSettings | None = None,
    progress: Progress | None = None,
) -> Candidate:
    """Fine-tune, quantise with training, and measure both on the held-out sets in `judge` (condition -> pairs)."""
    net = finetune(start, normal, hard, tune, settings=settings, progress=progress)
    quantised = qat(net, normal, hard, quantise, progress=progress)
    return Candidate(
        net,
        quantised,
        {name: evaluate(net, pairs) for name, pairs in judge.items()},
        {name: evaluate(quantised.model, pairs) for name, pairs in judge.items()},
    )


@dataclass(frozen=True)
class _Loss:
    """Of one step: against the truth with the teacher's output mixed in."""

    task: Task
    network: nn.Module
    teacher: nn.Module
    normal: PairSet
    hard: PairSet | None
    settings: TrainSettings
    share: float
    device: torch.device = CPU

    def __call__(self, _step: int, random: np.random.Generator) -> Tensor:
        low, high, level = mixed_batch(self.normal, self.hard, self.settings, random, self.device)
        if self.share:
            with torch.no_grad():
                high = (1.0 - self.share) * high + self.share * self.teacher(low)
        return self.task.loss(self.network(low), high, level)


def _train(
    network: nn.Module,
    loss: _Loss,
    budget: Budget,
    settings: TrainSettings,
    progress: Progress | None,
    checkpoint: Path | None,
) -> None:
    with one_thread(), on_training_device(network):
        loop = Loop(
            parameters_of(network),
            budget,
            rate=settings.rate,
            decay=0.99,
            groups=FACTORS,
            checkpoint=checkpoint,
            progress=progress,
            random=np.random.default_rng(settings.seed + 1),
        )
        loop.run(lambda step, _share: loss(step, loop.random))
        loop.use_average()


def _proof_frames(normal: PairSet, hard: PairSet | None) -> Frames:
    pairs = (*normal.pairs, *(hard.pairs if hard else ()))
    smallest = min(pairs, key=lambda pair: pair.low[0].size)
    return smallest.low[:: max(1, len(smallest.low) // 4)][:4]


__all__ = ["QAT_SETTINGS", "Candidate", "ExportError", "QuantOptions", "Quantised", "make_candidate", "qat"]
