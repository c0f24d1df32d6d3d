"""Training of the x2 task: hand-made nets, the supernet, and fine-tuning on a mix of normal and hard pairs.

The loss is PSNR itself, recording by recording (see `relative_loss`). bf16 autocast with channels-last memory makes a
step two to three times faster on CPUs that have bf16.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from flows.data.pairs import PairSet
from flows.tasks.batches import autocast, to_batch
from flows.tasks.device import CPU, on_training_device
from flows.tasks.training import Budget, Loop, Progress, one_thread, parameters_of
from flows.tasks.vsr.architecture import DEFAULT_SPACE, Architecture, Space
from flows.tasks.vsr.branches import branch, fold
from flows.tasks.vsr.history import clips_of
from flows.tasks.vsr.inherit import inherit
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.perception import ASKS_NOTHING, Perceiver, Perception
from flows.tasks.vsr.supernet import Supernet

Net = TypeVar("Net", bound=nn.Module)

_MSE_FLOOR = 1e-6


@dataclass(frozen=True)
class TrainSettings:
    """How patches are drawn, how fast weights move, and how much of the start is kept after fine-tuning.

    `branches` trains supernets with re-parametrised kernels; `perception` is what is asked for beside fidelity.
    With `frames` above 1 patches are clips, which nets with history are trained on.
    """

    batch: int = 16
    patch: int = 32
    rate: float = 2e-3
    hard_share: float = 0.33
    keep: float = 0.0
    max_first: float = 0.25
    seed: int = 0
    branches: bool = False
    frames: int = 1
    perception: Perception = ASKS_NOTHING

    @property
    def clip(self) -> int:
        """Consecutive frames of a patch."""
        return max(self.frames, self.perception.frames)


def train_net(
    architecture: Architecture,
    normal: PairSet,
    budget: Budget,
    *,
    settings: TrainSettings | None = None,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
) -> VsrNet:
    """Train a network from scratch on normal pairs."""
    settings = settings or TrainSettings()
    torch.manual_seed(settings.seed)
    net = VsrNet(architecture)
    _fit(net, normal, None, budget, settings, progress, checkpoint)
    return net


def finetune(
    net: Net,
    normal: PairSet,
    hard: PairSet,
    budget: Budget,
    *,
    settings: TrainSettings | None = None,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
) -> Net:
    """Continue training `net` (in place) on a mix of both conditions; returns it with averaged weights.

    A share `keep` of the start may remain in the result (weights are averaged, Wortsman et al. 2022, arXiv 2109.01903).
    It helps after a short run from a widened parent, where the new condition is learned slower than others are lost. It
    harms after a longer run: start and end are then too far apart for their mean to be good at either.
    """
    chosen = settings or TrainSettings(rate=1.5e-3)
    start = {name: value.detach().clone() for name, value in net.named_parameters()}
    _fit(net, normal, hard, budget, chosen, progress, checkpoint)
    with torch.no_grad():
        for name, value in net.named_parameters():
            value.lerp_(start[name], chosen.keep)
    return net


def train_supernet(
    normal: PairSet,
    budget: Budget,
    *,
    space: Space = DEFAULT_SPACE,
    parent: VsrNet | None = None,
    settings: TrainSettings | None = None,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
) -> Supernet:
    """Largest net alone first, then the sandwich rule with in-place distillation.

    Smaller nets learn halfway between truth and teacher. A log loss towards the teacher alone must be avoided: it is
    unbounded where they agree, so shared weights drift to nets that agree with each other and with nothing else.

    With a `parent` the supernet begins as its widened copy (no warm-up, no sorting: the parent's channels lead), and
    the parent's own slice is trained in every step, so that it stays a good member.
    """
    settings = settings or TrainSettings()
    torch.manual_seed(settings.seed)
    supernet = Supernet(space)
    if parent is not None:
        supernet.full.load_state_dict(inherit(parent, space.largest).state_dict())
    if settings.branches:
        branch(supernet)
    warm_up = 0.0 if parent is not None else settings.max_first

    def students(random: np.random.Generator) -> tuple[Architecture, ...]:
        middle = parent.architecture if parent is not None else space.sample(random)
        return space.smallest, middle, space.sample(random)

    def loss_of(loop: Loop, device: torch.device, share: float) -> Tensor:
        sandwich = share >= warm_up
        if sandwich and parent is None and "sorted" not in loop.marks:
            supernet.sort_channels()
            loop.restart()
            loop.marks.add("sorted")
        low, high, level = mixed_batch(normal, None, settings, loop.random, device)
        with autocast(device):
            teacher = supernet(low)
        loss = relative_loss(teacher, high, level)
        if not sandwich:
            return loss
        soft = 0.5 * (high + teacher.detach().float())
        for chosen in students(loop.random):
            with autocast(device):
                student = supernet(low, chosen)
            loss = loss + relative_loss(student, soft, level)
        return loss

    with one_thread(), clips_of(supernet, settings.clip), on_training_device(supernet) as device:
        loop = _loop(supernet, budget, settings, progress, checkpoint)

        def step(_step: int, share: float) -> Tensor:
            return loss_of(loop, device, share)

        loop.run(_each_kernel_once(step) if settings.branches else step)
        loop.use_average()
    fold(supernet)
    return supernet


def relative_loss(output: Tensor, target: Tensor, level: Tensor) -> Tensor:
    """Mean over patches of root error over the level of the patch's recording; [n, 3, h, w] and [n].

    To first order this is minus the mean PSNR over recordings: a dark or a smooth recording weighs as much as a bright
    or a busy one; inside a recording patches with large errors decide, as they do in the PSNR of whole frames.
    """
    return (_root_error(output, target) / level).mean()


def psnr_loss(output: Tensor, target: Tensor) -> Tensor:
    """Minus PSNR up to constants, for patches of one recording or of unknown origin: log of the mean root error."""
    return 0.2 * torch.log(_root_error(output, target).mean())


def _root_error(output: Tensor, target: Tensor) -> Tensor:
    return ((output.float() - target).square().mean(dim=(1, 2, 3)) + _MSE_FLOOR).sqrt()


def _fit(
    net: nn.Module,
    normal: PairSet,
    hard: PairSet | None,
    budget: Budget,
    settings: TrainSettings,
    progress: Progress | None,
    checkpoint: Path | None,
) -> None:
    net.train()
    with one_thread(), clips_of(net, settings.clip), on_training_device(net) as device:
        loop = _loop(net, budget, settings, progress, checkpoint)
        perceiver = Perceiver(settings.perception, settings.seed, settings.clip, device)
        loop.companions.update(perceiver.companions)

        def loss_of(_step: int, share: float) -> Tensor:
            low, high, level = mixed_batch(normal, hard, settings, loop.random, device)
            with autocast(device):
                output = net(low)
            return relative_loss(output, high, level) + perceiver.loss(output, high, level, share)

        loop.run(loss_of)
        loop.use_average()


def _loop(
    net: nn.Module, budget: Budget, settings: TrainSettings, progress: Progress | None, checkpoint: Path | None
) -> Loop:
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # stub lacks the keyword-only form
    return Loop(
        parameters_of(net),
        budget,
        rate=settings.rate,
        checkpoint=checkpoint,
        progress=progress,
        random=np.random.default_rng(settings.seed),
    )


def mixed_batch(
    normal: PairSet,
    hard: PairSet | None,
    settings: TrainSettings,
    random: np.random.Generator,
    device: torch.device = CPU,
) -> tuple[Tensor, Tensor, Tensor]:
    """Random patches (low, high) and their levels as float tensors; a share `hard_share` of them is from `hard`.

    Where clips are trained on, each patch is followed by the same place in the next frames.
    """
    frames = settings.clip
    batch = settings.batch // frames
    count = 0 if hard is None else round(batch * settings.hard_share)
    low, high, level = _drawn(normal, batch - count, frames, settings.patch, random)
    if hard is not None and count:
        hard_low, hard_high, hard_level = _drawn(hard, count, frames, settings.patch, random)
        low, high = np.concatenate((low, hard_low)), np.concatenate((high, hard_high))
        level = np.concatenate((level, hard_level))
    return (*to_batch(low, high, device), torch.from_numpy(level).to(device))


def _drawn(
    pairs: PairSet, count: int, frames: int, size: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if frames == 1:
        return pairs.draw(count, size, random)
    low, high, level = pairs.clips(count, frames, size, random)
    return low.reshape(-1, *low.shape[2:]), high.reshape(-1, *high.shape[2:]), level.repeat(frames)


def _each_kernel_once(loss_of: Callable[[int, float], Tensor]) -> Callable[[int, float], Tensor]:
    """Sum the branches of each kernel once a step, not once a slice."""

    def once(step: int, share: float) -> Tensor:
        with parametrize.cached():
            return loss_of(step, share)

    return once
