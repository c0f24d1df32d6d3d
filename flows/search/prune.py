"""Structured channel pruning with recovery: inner channels go where they are missed least, then training wins back.

Whole channels of a block are removed, so that what is left is an ordinary narrower network: fewer bytes and fewer MACs
on any device, no sparse format. Greedy (as NetAdapt, Yang et al. 2018, arXiv 1804.03230): of all single steps to the
next narrower width of one stage, take the one that loses least quality per cost saved, until the budget is met.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from flows.data.pairs import PairSet
from flows.errors import FlowError
from flows.tasks.task import Task
from flows.tasks.training import Budget, Progress
from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.task import VSR
from flows.tasks.vsr.train import TrainSettings

Cost = Callable[[Architecture], float]
RECOVERY = TrainSettings(batch=16, rate=1e-3, hard_share=1 / 4)


@dataclass(frozen=True)
class Step:
    """One narrowing: stage, its new width, the task's quality (not trained yet) and the cost after it."""

    stage: int
    mid: int
    quality: float
    cost: float


@dataclass(frozen=True)
class Cut:
    """The narrowed network, not trained yet, the way there, and quality on the judging pairs before and after it."""

    net: nn.Module
    architecture: Architecture
    steps: tuple[Step, ...]
    before: float
    quality: float


@dataclass(frozen=True)
class Pruned:
    """The recovered network, the way there, and quality on the judging pairs before, right after it, and recovered."""

    net: nn.Module
    architecture: Architecture
    steps: tuple[Step, ...]
    before: float
    cut: float
    recovered: float


def prune(
    net: nn.Module,
    architecture: Architecture,
    widths: tuple[int, ...],
    cost: Cost,
    limit: float,
    normal: PairSet,
    hard: PairSet,
    judge: PairSet,
    budget: Budget,
    *,
    settings: TrainSettings = RECOVERY,
    task: Task = VSR,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
) -> Pruned:
    """`cut`, then train what is left."""
    found = cut(net, architecture, widths, cost, limit, judge, task=task)
    trained = task.finetune(
        found.net, normal, hard, budget, settings=settings, progress=progress, checkpoint=checkpoint
    )
    recovered = task.evaluate(trained, judge).quality
    return Pruned(trained, found.architecture, found.steps, found.before, found.quality, recovered)


def cut(
    net: nn.Module,
    architecture: Architecture,
    widths: tuple[int, ...],
    cost: Cost,
    limit: float,
    judge: PairSet,
    *,
    task: Task = VSR,
) -> Cut:
    """Narrow `net` (left as it is) to `limit` times its cost or less, in steps of `widths`.

    `cost` may be an operator table's latency, bytes or MACs. `judge` must not be a held-out set: it decides. Raises
    FlowError when not even the narrowest network meets the limit.
    """
    whole, before = cost(architecture), task.evaluate(net, judge).quality
    found, steps = architecture, list[Step]()
    while cost(found) > limit * whole:
        at, now = cost(found), task.evaluate(task.inherit(net, found), judge).quality
        best = max(
            _narrower(found, widths, cost, at, lambda one: task.evaluate(task.inherit(net, one), judge).quality),
            key=lambda step: (step[1].quality - now) / (at - step[1].cost),
            default=None,
        )
        if best is None:
            raise FlowError(
                f"pruning ends at {at / whole:.2f} of the cost, asked for was {limit:g}; "
                f"allow widths below {min(widths)}"
            )
        found, taken = best
        steps.append(taken)
    narrow = task.inherit(net, found)
    return Cut(narrow, found, tuple(steps), before, task.evaluate(narrow, judge).quality)


def _narrower(
    architecture: Architecture, widths: tuple[int, ...], cost: Cost, at: float, quality: Cost
) -> list[tuple[Architecture, Step]]:
    """Every network with one stage narrowed to the next width that saves anything."""
    found = []
    for index, stage in enumerate(architecture.stages):
        for width in sorted((width for width in widths if width < stage.mid), reverse=True) if stage.depth else ():
            stages = list(architecture.stages)
            stages[index] = replace(stage, mid=width)
            narrow = replace(architecture, stages=tuple(stages))
            if cost(narrow) < at:
                found.append((narrow, Step(index, width, quality(narrow), cost(narrow))))
                break
    return found
