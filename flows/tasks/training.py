"""One training loop for all tasks: budgeted, resumable, with a moving average of the weights.

The budget is counted in CPU seconds of this thread (the box may be shared) with a wall-clock cap, or in steps when
a run must be repeatable. The learning rate follows the spent share of the budget: linear warm-up over 3 %, then
cosine to 2 %. A checkpoint holds everything needed to go on: weights, optimiser, average, share spent, random state.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Progress = Callable[[float, str], None]


class TrainingError(Exception):
    """A run cannot go on: the loss is not finite, or the checkpoint is not of this run."""


@dataclass(frozen=True)
class Budget:
    """CPU seconds (and at most `wall_seconds`), or exactly `steps`."""

    seconds: float | None = None
    wall_seconds: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is None and self.steps is None:
            raise ValueError("a budget needs seconds or steps")

    def spent(self, cpu: float, wall: float, step: int) -> float:
        """Share of the budget that is used, 0..1."""
        if self.steps is not None:
            return min(1.0, step / self.steps)
        assert self.seconds is not None
        cap = self.wall_seconds or 3.0 * self.seconds
        return min(1.0, max(cpu / self.seconds, wall / cap))


@dataclass
class Loop:
    """State of one run. `parameters` are trained in place; `average` holds their moving average.

    Call `run` with a function that returns the loss of one step given (step, share of budget spent). `marks` are names
    of what that function did once and must not do again; `companions` are modules and optimisers that it trains beside.
    Both are kept in the checkpoint.
    """

    parameters: dict[str, nn.Parameter]
    budget: Budget
    rate: float = 2e-3
    decay: float = 0.999
    groups: dict[str, float] = field(default_factory=dict)
    checkpoint: Path | None = None
    progress: Progress | None = None
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    clip: float = 1.0
    companions: dict[str, nn.Module | torch.optim.Optimizer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.average = {name: value.detach().clone() for name, value in self.parameters.items()}
        self.step = 0
        self.marks: set[str] = set()
        self._cpu = 0.0
        self._wall = 0.0
        self._optimiser = torch.optim.Adam(
            [
                {"params": [value], "lr": self.rate, "factor": self._factor(name)}
                for name, value in self.parameters.items()
            ],
            betas=(0.9, 0.99),
        )

    def run(self, loss_of: Callable[[int, float], Tensor]) -> float:
        """Train until the budget is spent; returns the smoothed loss. Average weights are in `average`."""
        self._resume()
        smooth, last_report = math.nan, -1.0
        cpu, wall = time.thread_time() - self._cpu, time.monotonic() - self._wall
        while (share := self.budget.spent(self._cpu, self._wall, self.step)) < 1.0:
            self._set_rate(share)
            loss = loss_of(self.step, share)
            value = float(loss.detach())
            if not math.isfinite(value):
                raise TrainingError(f"loss is {value} at step {self.step}; lower the rate or check the data")
            self._optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.clip)
            self._optimiser.step()
            self._update_average()
            self.step += 1
            smooth = value if math.isnan(smooth) else 0.99 * smooth + 0.01 * value
            self._cpu, self._wall = time.thread_time() - cpu, time.monotonic() - wall
            if share - last_report >= 0.02:
                last_report = share
                self._report(share, smooth)
        self._report(1.0, smooth)
        return smooth

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds spent so far, over all processes that worked on this run."""
        return self._cpu

    def restart(self) -> None:
        """Forget average and moments, after parameters were rearranged by hand."""
        self.average = {name: value.detach().clone() for name, value in self.parameters.items()}
        self._optimiser.state.clear()

    def use_average(self) -> None:
        """Copy the moving average into the parameters."""
        with torch.no_grad():
            for name, value in self.parameters.items():
                value.copy_(self.average[name])

    def _factor(self, name: str) -> float:
        return next((factor for key, factor in self.groups.items() if key in name), 1.0)

    def _set_rate(self, share: float) -> None:
        warm = min(1.0, (share + 1e-3) / 0.03)
        rate = self.rate * warm * (0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * share)))
        for group in self._optimiser.param_groups:
            group["lr"] = rate * group["factor"]

    def _update_average(self) -> None:
        decay = min(self.decay, (1.0 + self.step) / (10.0 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.average.values()), [p.detach() for p in self.parameters.values()], 1.0 - decay
            )

    def _report(self, share: float, loss: float) -> None:
        if self.progress is not None:
            self.progress(share, f"step {self.step} loss {loss:.4f}")
        if self.checkpoint is not None and share < 1.0:
            self._save(self.checkpoint)

    def _save(self, path: Path) -> None:
        state: dict[str, Any] = {  # torch.save takes any tree of tensors and plain values
            "parameters": {name: value.detach() for name, value in self.parameters.items()},
            "average": self.average,
            "optimiser": self._optimiser.state_dict(),
            "step": self.step,
            "cpu": self._cpu,
            "wall": self._wall,
            "random": self.random.bit_generator.state,
            "marks": sorted(self.marks),
            "companions": {name: companion.state_dict() for name, companion in self.companions.items()},
        }
        temporary = path.with_suffix(".part")
        with temporary.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def _resume(self) -> None:
        if self.checkpoint is None or not self.checkpoint.exists():
            return
        state = torch.load(self.checkpoint, weights_only=True)
        if set(state["parameters"]) != set(self.parameters):
            raise TrainingError(f"{self.checkpoint} belongs to another network; remove it to start again")
        with torch.no_grad():
            for name, value in self.parameters.items():
                value.copy_(state["parameters"][name])
        self.average = state["average"]
        self._optimiser.load_state_dict(state["optimiser"])
        self.step, self._cpu, self._wall = state["step"], state["cpu"], state["wall"]
        self.random.bit_generator.state = state["random"]
        self.marks = set(state.get("marks", ()))
        kept = state.get("companions", {})
        if set(kept) != set(self.companions):
            named = ", ".join(sorted(set(kept) ^ set(self.companions)))
            raise TrainingError(f"{self.checkpoint} and this run differ in {named}; remove it to start again")
        for name, companion in self.companions.items():
            companion.load_state_dict(kept[name])


def parameters_of(module: nn.Module) -> dict[str, nn.Parameter]:
    """Named trainable parameters."""
    return {name: value for name, value in module.named_parameters() if value.requires_grad}


@contextmanager
def one_thread() -> Iterator[None]:
    """Train on one core, so that the rest of the box stays responsive; restores the old count."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
