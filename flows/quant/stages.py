"""Quantisation-aware training in stages: first activations round, then weights too, then all scales are learned.

Each stage disturbs a network that has settled. Weights meet rounded activations while they are still free; they are
then put onto their grid where it costs the layer's output least (`flows.quant.adaround`) and trained there with scales
held; at last scales are trained with them, and zero points where that is asked for. What each stage began with lies
beside the checkpoint, so that a killed run goes on inside the stage where it was.

Sources: S. K. Esser et al., "Learned step size quantization", 2020, arXiv 1902.08153; Y. Bhalgat et al., "LSQ+", 2020,
arXiv 2004.09576 (learned zero points).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from flows.quant.adaround import Rounding, adaround
from flows.quant.lsq import ActivationQuantizer, QuantConv2d, set_enabled
from flows.tasks.device import on_training_device
from flows.tasks.training import Budget, Loop, Progress, one_thread, parameters_of

LossOf = Callable[[int, np.random.Generator], Tensor]
"""Loss of one step on the training device, given its number over all stages and a source of random numbers."""

FACTORS = {"log_scale": 0.1, "shift": 100.0}
"""Rates relative to those of weights. Scales are logarithms; a zero point is counted in steps of its grid."""


class Stage(StrEnum):
    """What rounds and what learns."""

    ACTIVATIONS = "activations"
    WEIGHTS = "weights"
    SCALES = "scales"


@dataclass(frozen=True)
class StagePlan:
    """Shares of the budget, AdaRound before weights round, zero points that learn. A share of 0 leaves a stage out.

    `calm` is the rate once weights round, relative to that before: a weight that lies on its grid should leave its
    place for a reason, not for the noise of a step. `rounded_ends` lets pinned grids round while training. They are the
    pixel grid of pictures, on which the truth lies too: an absolute error under half a step would have no gradient.
    """

    activations: float = 0.7
    weights: float = 0.15
    scales: float = 0.15
    calm: float = 0.1
    adaround: bool = True
    zero_points: bool = False
    rounded_ends: bool = False

    def __post_init__(self) -> None:
        shares = (self.activations, self.weights, self.scales)
        if min(shares) < 0.0 or abs(sum(shares) - 1.0) > 1e-9:
            raise ValueError(f"shares of the stages {shares} must be 0 or more and sum to 1")

    @property
    def stages(self) -> tuple[tuple[Stage, float], ...]:
        """Every stage with its share, in order."""
        rows = zip(Stage, (self.activations, self.weights, self.scales), strict=True)
        return tuple((stage, share) for stage, share in rows if share > 0.0)

    def rate_of(self, stage: Stage) -> float:
        """Rate of a stage relative to that of training."""
        return 1.0 if stage is Stage.ACTIVATIONS else self.calm


def train_in_stages(
    network: nn.Module,
    loss_of: LossOf,
    batches: Sequence[Tensor],
    budget: Budget,
    *,
    rate: float,
    plan: StagePlan | None = None,
    seed: int = 0,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Rounding, ...]:
    """Train a calibrated network in place; returns what AdaRound did, nothing when that was before this call.

    `batches` are inputs for AdaRound. In the end everything rounds, and the moving average of the last stage stays.
    """
    chosen = plan or StagePlan()
    rounded: tuple[Rounding, ...] = ()
    first, before, float_weights = 0, 0.0, True
    network.train()
    for number, (stage, share) in enumerate(chosen.stages):
        begun = checkpoint.with_suffix(f".{stage}.begin") if checkpoint else None
        if begun is not None and begun.exists():
            first = _restore(network, begun)
        else:
            if stage is not Stage.ACTIVATIONS and float_weights:
                rounded = _round_weights(network, batches, chosen)
            _keep(network, begun, first)
        float_weights = stage is Stage.ACTIVATIONS
        later = _later(chosen, number, checkpoint)
        if not later:
            first = _run(
                network, stage, loss_of, _part(budget, chosen, number), chosen.rate_of(stage) * rate, chosen,
                np.random.default_rng([seed, number]), first,
                checkpoint.with_suffix(f".{stage}.pt") if checkpoint else None,
                _scaled(progress, stage, before, share),
            )  # fmt: skip
        before += share
    set_enabled(network, activations=True, weights=True)
    _settle(network)
    return rounded


def _run(
    network: nn.Module,
    stage: Stage,
    loss_of: LossOf,
    budget: Budget,
    rate: float,
    plan: StagePlan,
    random: np.random.Generator,
    first: int,
    checkpoint: Path | None,
    progress: Progress | None,
) -> int:
    """One stage; returns the number of the next one's first step. A share that is less than a step is none."""
    if budget.steps == 0:
        return first
    scales = stage is Stage.SCALES
    set_enabled(network, activations=True, weights=stage is not Stage.ACTIVATIONS)
    for grid in _grids(network):
        grid.log_scale.requires_grad_(scales and not grid.pinned)
        grid.enabled = plan.rounded_ends or not grid.pinned
        if scales and plan.zero_points:
            grid.learn_zero_point()
    for conv in _convs(network):
        conv.log_scale.requires_grad_(scales)
    with one_thread(), on_training_device(network):
        loop = Loop(
            parameters_of(network), budget, rate, decay=0.99, groups=FACTORS, checkpoint=checkpoint, progress=progress,
            random=random,
        )  # fmt: skip
        loop.run(lambda step, _share: loss_of(first + step, loop.random))
        loop.use_average()
    return first + loop.step


def _round_weights(network: nn.Module, batches: Sequence[Tensor], plan: StagePlan) -> tuple[Rounding, ...]:
    """Scales that fit the weights as they are now, and the best rounding on them."""
    set_enabled(network, activations=True, weights=True)
    for conv in _convs(network):
        conv.refit()
    return adaround(network, batches) if plan.adaround else ()


def _settle(network: nn.Module) -> None:
    for grid in _grids(network):
        grid.log_scale.requires_grad_(not grid.pinned)
        grid.settle_zero_point()
    for conv in _convs(network):
        conv.log_scale.requires_grad_(True)


def _later(plan: StagePlan, number: int, checkpoint: Path | None) -> bool:
    """Whether the stage after this one has begun already."""
    if checkpoint is None or number + 1 >= len(plan.stages):
        return False
    return checkpoint.with_suffix(f".{plan.stages[number + 1][0]}.begin").exists()


def _part(budget: Budget, plan: StagePlan, number: int) -> Budget:
    """The stage's part of the budget; steps are cut so that their sum is the whole."""
    if budget.steps is not None:
        ends = np.rint(np.cumsum([share for _, share in plan.stages]) * budget.steps).astype(int)
        return Budget(steps=int(ends[number] - (ends[number - 1] if number else 0)))
    share = plan.stages[number][1]
    assert budget.seconds is not None
    return Budget(budget.seconds * share, budget.wall_seconds * share if budget.wall_seconds else None)


def _scaled(progress: Progress | None, stage: Stage, before: float, share: float) -> Progress | None:
    if progress is None:
        return None
    return lambda done, text: progress(before + share * done, f"{stage}: {text}")


def _keep(network: nn.Module, path: Path | None, first: int) -> None:
    if path is None:
        return
    temporary = path.with_suffix(".part")
    with temporary.open("wb") as file:
        torch.save({"network": network.state_dict(), "first": first}, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _restore(network: nn.Module, path: Path) -> int:
    state = torch.load(path, weights_only=True)
    network.load_state_dict(state["network"])
    return int(state["first"])


def _grids(network: nn.Module) -> list[ActivationQuantizer]:
    return [module for module in network.modules() if isinstance(module, ActivationQuantizer)]


def _convs(network: nn.Module) -> list[QuantConv2d]:
    return [module for module in network.modules() if isinstance(module, QuantConv2d)]
