"""The float start: the plain net trained for a budget of CPU seconds, and the same net trained on for some steps.

Recipe: bfloat16 autocast, channels last, batches of 8 patches of 64 x 64, Adam, L1.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.quantising.material import Material, learned, root
from benchmarks.quantising.net import PlainNet, load_plain, save_plain
from flows.tasks.training import Budget, Loop, Progress, one_thread, parameters_of
from flows.tasks.vsr.train import to_batch

BATCH, PATCH = 8, 64
START_RATE = 2e-3
LATER_SEED = 1_000
"""Added to the seed of later trainings, so that they do not meet the start's patches in the same order."""


def train_start(
    seed: int,
    budget_cpu_s: float,
    folder: Path,
    *,
    material: Material | None = None,
    progress: Progress | None = None,
    steps: int | None = None,
) -> Path:
    """Train from scratch; the weights lie at the path given back. A stopped training goes on from its checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / "start.npz"
    if made.exists():
        return made
    pictures = material or learned(root())
    torch.manual_seed(seed)
    net = PlainNet()
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # stub lacks the keyword-only form
    budget = Budget(steps=steps) if steps else Budget(seconds=budget_cpu_s, wall_seconds=1e9)
    loop = Loop(parameters_of(net), budget, START_RATE, checkpoint=folder / "start.pt", progress=progress)

    def loss_of(step: int, _share: float) -> Tensor:
        low, high = to_batch(*pictures.batch(seed, step, BATCH, PATCH))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=fast_bf16()):
            output = net(low)
        return F.l1_loss(output.float(), high)

    with one_thread():
        loop.run(loss_of)
    loop.use_average()
    (folder / "steps").write_text(str(loop.step))
    return save_plain(net, made)


def train_on(
    start: Path, seed: int, steps: int, rate: float, material: Material, progress: Progress | None
) -> PlainNet:
    """The float net trained on: as many steps, the same patches and rates as whoever quantises from this start."""
    net = load_plain(start)
    run(net, lambda x: net(x), seed, steps, rate, material, progress)
    return net


def run(
    net: torch.nn.Module,
    forward: Callable[[Tensor], Tensor],
    seed: int,
    steps: int,
    rate: float,
    material: Material,
    progress: Progress | None = None,
    groups: dict[str, float] | None = None,
) -> None:
    """`steps` of Adam on L1 over everything trainable in `net`, in float32; its moving average stays in it."""
    loop = Loop(parameters_of(net), Budget(steps=steps), rate, decay=0.99, groups=groups or {}, progress=progress)
    net.train()

    def loss_of(step: int, _share: float) -> Tensor:
        low, high = to_batch(*material.batch(seed + LATER_SEED, step, BATCH, PATCH))
        return F.l1_loss(forward(low).float(), high)

    with one_thread():
        loop.run(loss_of)
    loop.use_average()


def fast_bf16() -> bool:
    """Whether this CPU has bfloat16 arithmetic."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
