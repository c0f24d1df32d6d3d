"""A short training through time: four frames, Charbonnier loss, Adam; the same seed and steps for every history."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.recurrence.clips import Scene, batch
from benchmarks.recurrence.net import History, RecurrentNet

STEPS, SIZE, LENGTH, SIDE, SEED = 800, 4, 5, 32, 3
RATE = 2e-3


def trained(
    history: History, material: Sequence[Scene], say: Callable[[float], None] = lambda _: None, steps: int = STEPS
) -> RecurrentNet:
    """The net after `steps` steps on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    net = RecurrentNet(history)
    random = np.random.default_rng(SEED)
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        low, high = (tensor(frames) for frames in batch(material, random, SIZE, LENGTH, SIDE))
        kept = net.first(low[0])
        loss = torch.zeros(())
        for frame, truth in zip(low, high, strict=True):
            image, left = net(frame, kept)
            kept = net.handed(left)
            loss = loss + torch.sqrt((image - truth) ** 2 + 1e-6).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimizer.step()
        plan.step()
        say((step + 1) / steps)
    return net.eval()


def tensor(frames: NDArray[np.uint8]) -> Tensor:
    """[..., h, w, 3] bytes -> [..., 3, h, w] floats in 0..1."""
    return torch.from_numpy(np.moveaxis(frames.astype(np.float32) / 255.0, -1, -3).copy())
