"""The training that everybody gets behind the start: as many steps, the same patches, Adam with the same rates, L1."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.quantising.material import Material
from flows.tasks.training import Budget, Loop, Progress, one_thread, parameters_of


def train(
    net: nn.Module,
    forward: Callable[[Tensor], Tensor],
    seed: int,
    steps: int,
    rate: float,
    material: Material,
    progress: Progress | None = None,
    groups: dict[str, float] | None = None,
) -> None:
    """`steps` over everything trainable in `net`, in float32; its moving average stays in it.

    `groups` are factors of the rate for parameters with such a word in their name.
    """
    loop = Loop(parameters_of(net), Budget(steps=steps), rate, decay=0.99, groups=groups or {}, progress=progress)
    net.train()

    def loss_of(step: int, _share: float) -> Tensor:
        low, high = material.batch(seed, step)
        return F.l1_loss(forward(low).float(), high)

    with one_thread():
        loop.run(loss_of)
    loop.use_average()
