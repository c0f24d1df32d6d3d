"""Update the kept supernet to new conditions before searching: the inherited stages stay frozen.

The sandwich rule (largest, smallest, random; Yu and Huang 2019, arXiv 1903.05134) over a mix of normal and hard
pairs. Stages outside `affected` get no gradient, so what they learned before is inherited unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from flows.data.pairs import PairSet
from flows.tasks.batches import autocast, to_batch
from flows.tasks.device import on_training_device
from flows.tasks.elastic import ElasticNet
from flows.tasks.task import Task
from flows.tasks.training import Budget, Loop, Progress, one_thread
from flows.tasks.vsr.architecture import Architecture, Stage
from flows.tasks.vsr.history import FRAMES, clips_of
from flows.tasks.vsr.task import VSR
from flows.tasks.vsr.train import TrainSettings, mixed_batch

Elastic = TypeVar("Elastic", bound=ElasticNet)


def adapt_supernet(
    supernet: Elastic,
    inherited: Architecture,
    affected: tuple[int, ...],
    normal: PairSet,
    hard: PairSet,
    budget: Budget,
    settings: TrainSettings | None = None,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    task: Task = VSR,
) -> Elastic:
    """Train the affected stages (in place) of a supernet; returns it with averaged weights."""
    chosen = settings or TrainSettings(rate=1e-3)
    if inherited.history:
        chosen = replace(chosen, frames=FRAMES)
    supernet.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # stub lacks the keyword-only form
    largest = _filled(supernet, inherited, affected, largest=True)
    smallest = _filled(supernet, inherited, affected, largest=False)

    with one_thread(), clips_of(supernet, chosen.clip), on_training_device(supernet) as device:
        loop = Loop(
            task.stage_parameters(supernet, affected), budget, rate=chosen.rate, progress=progress,
            checkpoint=checkpoint, random=np.random.default_rng(chosen.seed),
        )  # fmt: skip

        def loss_of(_step: int, _share: float) -> Tensor:
            low, high = _mixed_batch(normal, hard, chosen, loop.random, device)
            loss = low.new_zeros(())
            for architecture in (largest, smallest, _random(supernet, inherited, affected, loop.random)):
                with autocast(device):
                    output = supernet(low, architecture)
                loss = loss + task.search_loss(output, high)
            return loss

        loop.run(loss_of)
        loop.use_average()
    return supernet


def _filled(supernet: ElasticNet, inherited: Architecture, affected: tuple[int, ...], *, largest: bool) -> Architecture:
    space = supernet.space
    pick = max if largest else min
    stage = Stage(max(1, pick(space.depths)), pick(space.mids), pick(space.kernels))
    return _replaced(inherited, dict.fromkeys(affected, stage))


def _random(
    supernet: ElasticNet, inherited: Architecture, affected: tuple[int, ...], random: np.random.Generator
) -> Architecture:
    sampled = supernet.space.sample(random)
    return _replaced(inherited, {index: sampled.stages[index] for index in affected})


def _replaced(inherited: Architecture, stages: dict[int, Stage]) -> Architecture:
    merged = tuple(stages.get(index, stage) for index, stage in enumerate(inherited.stages))
    return replace(inherited, stages=merged)


def _mixed_batch(
    normal: PairSet, hard: PairSet, settings: TrainSettings, random: np.random.Generator, device: torch.device
) -> tuple[Tensor, Tensor]:
    if settings.clip > 1:
        low, high, _ = mixed_batch(normal, hard, settings, random, device)
        return low, high
    count = round(settings.batch * settings.hard_share)
    easy = normal.patches(settings.batch - count, settings.patch, random)
    tough = hard.patches(count, settings.patch, random)
    return to_batch(np.concatenate((easy[0], tough[0])), np.concatenate((easy[1], tough[1])), device)
