"""Which stages of the network the hard conditions affect.

First-order Taylor response (Molchanov et al. 2017, arXiv 1611.06440): sum of |gradient x weight| of a stage on the
hard pairs, divided by the same on normal pairs. A stage whose response grows most when conditions turn hard is
where capacity is missing; the others are inherited and stay frozen in the search.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from flows.data.pairs import PairSet
from flows.tasks.task import Task
from flows.tasks.vsr.task import VSR


@dataclass(frozen=True)
class StageResponse:
    """Response of one stage. `ratio` compares hard with normal, `affected` is the verdict, `reason` says why."""

    stage: str
    normal: float
    hard: float
    ratio: float
    affected: bool
    reason: str


def stage_responses(
    net: nn.Module,
    normal: PairSet,
    hard: PairSet,
    *,
    batches: int = 8,
    threshold: float = 0.6,
    seed: int = 0,
    task: Task = VSR,
) -> tuple[StageResponse, ...]:
    """Measure head, every body stage and tail.

    A stage is affected when its ratio is at least `threshold` of the largest. Stages without blocks take the ratio
    of the nearest stage before them, since depth added there would answer to the same features.
    """
    groups = task.stages(net)
    energy = {name: _energy(net, groups, pairs, batches, seed) for name, pairs in (("normal", normal), ("hard", hard))}
    ratios: dict[str, float] = {}
    for name in groups:
        base, stressed = energy["normal"].get(name, 0.0), energy["hard"].get(name, 0.0)
        ratios[name] = stressed / base if base > 0 else (list(ratios.values())[-1] if ratios else 1.0)
    largest = max(ratios.values())
    return tuple(
        StageResponse(
            name,
            energy["normal"].get(name, 0.0),
            energy["hard"].get(name, 0.0),
            ratio,
            ratio >= threshold * largest,
            f"responds {ratio:.2f}x as strongly to hard frames as to normal ones (largest {largest:.2f}x)",
        )
        for name, ratio in ratios.items()
    )


def affected_stages(responses: tuple[StageResponse, ...]) -> tuple[int, ...]:
    """Indices of the body stages to search."""
    return tuple(int(r.stage.removeprefix("stage")) for r in responses if r.affected and r.stage.startswith("stage"))


def _energy(
    net: nn.Module, groups: dict[str, list[nn.Module]], pairs: PairSet, batches: int, seed: int
) -> dict[str, float]:
    random = np.random.default_rng(seed)
    totals: dict[str, float] = {}
    for _ in range(batches):
        low, high = pairs.patches(8, 24, random)
        net.zero_grad(set_to_none=True)
        output = net(torch.from_numpy(low).permute(0, 3, 1, 2).float() / 255.0)
        target = torch.from_numpy(high).permute(0, 3, 1, 2).float() / 255.0
        torch.nn.functional.l1_loss(output, target).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        for name, modules in groups.items():
            totals[name] = totals.get(name, 0.0) + sum(_taylor(module) for module in modules)
    net.zero_grad(set_to_none=True)
    return {name: value / batches for name, value in totals.items()}


def _taylor(module: nn.Module) -> float:
    return sum(
        float((parameter.grad * parameter.detach()).abs().sum())
        for parameter in module.parameters()
        if parameter.grad is not None
    )
