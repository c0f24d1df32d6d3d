"""Quantisation-aware training of an x2 network, and the whole step from float network to proven INT8 model.

Calibrate on both conditions, then train weights and scales together; scales move ten times slower. The float network
is the teacher: its output is mixed into the target, so that training does not drift to the few patches it sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from flows.data.clips import Frames
from flows.data.pairs import PairSet
from flows.quant.adaround import adaround
from flows.quant.calibrate import Grid, calibrate
from flows.quant.equalise import equalised
from flows.quant.export import Agreement, ExportError, proven_vsr
from flows.quant.networks import QuantVsrNet
from flows.tasks.training import Budget, Loop, Progress, one_thread, parameters_of
from flows.tasks.vsr.metrics import Metrics, evaluate
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.train import TrainSettings, finetune, mixed_batch, relative_loss

QAT_SETTINGS = TrainSettings(batch=12, patch=32, rate=2e-4)
_SCALE_FACTOR = 0.1
_TEACHER_SHARE = 0.3
_CALIBRATION_BATCHES = 24


@dataclass(frozen=True)
class QuantOptions:
    """Ways to begin better than by rounding to nearest; each is off unless asked for.

    equalise   cross-layer equalisation of the float network (its function stays the same, bit for bit)
    kl         ranges of least KL divergence as candidates of calibration
    adaround   rounding of weights by what it does to each layer's output, before training
    """

    equalise: bool = False
    kl: bool = False
    adaround: bool = False


@dataclass(frozen=True)
class Quantised:
    """A trained INT8 network: the torch twin, the ONNX bytes, its grids and how exactly ONNX Runtime agrees."""

    network: QuantVsrNet
    model: bytes
    grids: dict[str, Grid]
    agreement: Agreement


@dataclass(frozen=True)
class Candidate:
    """What a retrain run hands on: float network, INT8 model, and metrics by condition for both."""

    net: VsrNet
    quantised: Quantised
    float_metrics: dict[str, Metrics]
    int8_metrics: dict[str, Metrics]


def qat(
    net: VsrNet,
    normal: PairSet,
    hard: PairSet | None,
    budget: Budget | None,
    *,
    settings: TrainSettings = QAT_SETTINGS,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    options: QuantOptions | None = None,
) -> Quantised:
    """INT8 version of `net`, which is left as it is. Without a budget: post-training quantisation only.

    Raises ExportError when the exported model does not compute what the fake-quantised network computes.
    """
    chosen = options or QuantOptions()
    network = QuantVsrNet(equalised(net) if chosen.equalise else net)
    random = np.random.default_rng(settings.seed)
    batches = [mixed_batch(normal, hard, settings, random)[0] for _ in range(_CALIBRATION_BATCHES)]
    grids = calibrate(network, batches, kl=chosen.kl)
    if chosen.adaround:
        adaround(network, batches)
    if budget is not None:
        _train(network, net, normal, hard, budget, settings, progress, checkpoint)
    model, found = proven_vsr(network, _proof_frames(normal, hard))
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


def _train(
    network: QuantVsrNet,
    teacher: VsrNet,
    normal: PairSet,
    hard: PairSet | None,
    budget: Budget,
    settings: TrainSettings,
    progress: Progress | None,
    checkpoint: Path | None,
) -> None:
    loop = Loop(
        parameters_of(network),
        budget,
        rate=settings.rate,
        decay=0.99,
        groups={"log_scale": _SCALE_FACTOR},
        checkpoint=checkpoint,
        progress=progress,
        random=np.random.default_rng(settings.seed + 1),
    )
    teacher.eval()

    def loss_of(step: int, share: float) -> Tensor:
        low, high, level = mixed_batch(normal, hard, settings, loop.random)
        with torch.no_grad():
            soft = teacher(low)
        target = (1.0 - _TEACHER_SHARE) * high + _TEACHER_SHARE * soft
        return relative_loss(network(low), target, level)

    with one_thread():
        loop.run(loss_of)
    loop.use_average()


def _proof_frames(normal: PairSet, hard: PairSet | None) -> Frames:
    pairs = (*normal.pairs, *(hard.pairs if hard else ()))
    smallest = min(pairs, key=lambda pair: pair.low[0].size)
    return smallest.low[:: max(1, len(smallest.low) // 4)][:4]


__all__ = ["QAT_SETTINGS", "Candidate", "ExportError", "QuantOptions", "Quantised", "make_candidate", "qat"]
