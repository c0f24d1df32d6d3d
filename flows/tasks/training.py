"""One training loop for all tasks: budgeted, resumable, with a moving average of the weights.

The budget is counted in CPU seconds of this thread (the box may be shared) with a wall-clock cap, or in steps when
a run must be repeatable. On a GPU a thread's CPU time says little, so there the seconds are those of the wall. The
learning rate follows the spent share of the budget: linear warm-up over 3 %, then cosine to 2 %. A checkpoint holds
everything needed to go on: weights, optimiser, average, share spent, random state.

A loss or a gradient that is not finite never reaches the weights: the run goes back to the last good state, draws other
patches at half the rate, and gives up after `RETREATS` such steps back. The checkpoint on disk is always a good one.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flows.errors import TrainingError
from flows.storage import write_whole
from flows.tasks.curve import Curve, curve_of
from flows.tasks.device import CPU

__all__ = ["Budget", "Loop", "Progress", "TrainingError", "one_thread", "parameters_of"]

Progress = Callable[[float, str], None]
RETREATS = 3
"""Steps back to the last good state before a training is given up."""


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
        self.curve = Curve()
        self._smooth = math.nan
        self._good: dict[str, Any] | None = None  # Any: like a checkpoint
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
        last_report = min((point[1] for point in self.curve.points[-1:]), default=-1.0)
        seconds = time.monotonic if self._device.type == "cuda" else time.thread_time
        cpu, wall = seconds() - self._cpu, time.monotonic() - self._wall
        while (share := self.budget.spent(self._cpu, self._wall, self.step)) < 1.0:
            self._set_rate(share)
            value = self._one_step(loss_of, share)
            self._cpu, self._wall = seconds() - cpu, time.monotonic() - wall
            if value is None:
                continue
            self._smooth = value if math.isnan(self._smooth) else 0.99 * self._smooth + 0.01 * value
            if share - last_report >= 0.02 or share < last_report:
                last_report = share
                self._report(share)
        self._report(1.0)
        if self.checkpoint is not None:
            self.curve.save(curve_of(self.checkpoint))
        return self._smooth

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds (on a GPU: seconds) spent so far, over all processes that worked on this run."""
        return self._cpu

    @property
    def _device(self) -> torch.device:
        return next((value.device for value in self.parameters.values()), CPU)

    def restart(self) -> None:
        """Forget average and moments, after parameters were rearranged by hand."""
        self.average = {name: value.detach().clone() for name, value in self.parameters.items()}
        self._optimiser.state.clear()
        self._good = None

    def use_average(self) -> None:
        """Copy the moving average into the parameters."""
        with torch.no_grad():
            for name, value in self.parameters.items():
                value.copy_(self.average[name])

    def _one_step(self, loss_of: Callable[[int, float], Tensor], share: float) -> float | None:
        """Loss of one step, or None after a step back."""
        loss = loss_of(self.step, share)
        value = float(loss.detach())
        if not math.isfinite(value):
            self._retreat(f"loss is {value}")
            return None
        self._optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.clip))
        if not math.isfinite(norm):
            self._retreat(f"the gradient is {norm}")
            return None
        self._optimiser.step()
        self._update_average()
        self.step += 1
        return value

    def _retreat(self, what: str) -> None:
        """Back to the last good state at half the rate; other patches are drawn from here on."""
        if self.curve.retreats >= RETREATS:
            kept = f"; the last good state is kept in {self.checkpoint.name}" if self.checkpoint else ""
            raise TrainingError(
                f"{what} at step {self.step}, also after {RETREATS} steps back at half the rate each{kept}: "
                "lower the rate or check the data"
            )
        retreats = self.curve.retreats + 1
        if self._good is not None:
            self._restore(self._good)
        self.curve.retreats = retreats

    def _factor(self, name: str) -> float:
        return next((factor for key, factor in self.groups.items() if key in name), 1.0)

    def _set_rate(self, share: float) -> None:
        warm = min(1.0, (share + 1e-3) / 0.03)
        rate = 0.5**self.curve.retreats * self.rate * warm * (0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * share)))
        for group in self._optimiser.param_groups:
            group["lr"] = rate * group["factor"]

    def _update_average(self) -> None:
        decay = min(self.decay, (1.0 + self.step) / (10.0 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.average.values()), [p.detach() for p in self.parameters.values()], 1.0 - decay
            )

    def _report(self, share: float) -> None:
        if not self.curve.points or self.curve.points[-1][0] < self.step:
            self.curve.points.append((self.step, share, self._smooth))
        if self.checkpoint is not None:
            self._save(self.checkpoint)
        self._good = copy.deepcopy(self._state())
        if self.progress is not None:
            self.progress(share, f"step {self.step} loss {self._smooth:.4f}")

    def _state(self) -> dict[str, Any]:  # Any: torch.save takes any tree of tensors and plain values
        return {
            "parameters": {name: value.detach() for name, value in self.parameters.items()},
            "average": self.average,
            "optimiser": self._optimiser.state_dict(),
            "step": self.step,
            "smooth": self._smooth,
            "curve": list(self.curve.points),
            "retreats": self.curve.retreats,
            "marks": sorted(self.marks),
            "companions": {name: companion.state_dict() for name, companion in self.companions.items()},
        }

    def _save(self, path: Path) -> None:
        beside = {"cpu": self._cpu, "wall": self._wall, "random": self.random.bit_generator.state}
        state = self._state() | beside
        write_whole(path, lambda file: torch.save(state, file), path.with_suffix(".part"))

    def _restore(self, state: dict[str, Any]) -> None:  # Any: like a checkpoint
        with torch.no_grad():
            for name, value in self.parameters.items():
                value.copy_(state["parameters"][name])
        self.average = {
            name: value.to(self.parameters[name].device, copy=True) for name, value in state["average"].items()
        }
        self._optimiser.load_state_dict(copy.deepcopy(state["optimiser"]))
        self.step, self._smooth = state["step"], state["smooth"]
        self.curve = Curve([tuple(point) for point in state["curve"]], state["retreats"])
        self.marks = set(state["marks"])
        for name, companion in self.companions.items():
            companion.load_state_dict(copy.deepcopy(state["companions"][name]))

    def _resume(self) -> None:
        if self.checkpoint is None or not self.checkpoint.exists():
            return
        try:
            state = torch.load(self.checkpoint, weights_only=True, map_location=CPU)
            fits = set(state["parameters"]) == set(self.parameters)
        except Exception as error:  # whatever torch makes of a damaged file
            reason = str(error).partition("\n")[0][:200]
            raise TrainingError(f"{self.checkpoint} cannot be read ({reason}); remove it to start again") from error
        if not fits:
            raise TrainingError(f"{self.checkpoint} belongs to another network; remove it to start again")
        if set(state["companions"]) != set(self.companions):
            named = ", ".join(sorted(set(state["companions"]) ^ set(self.companions)))
            raise TrainingError(f"{self.checkpoint} and this run differ in {named}; remove it to start again")
        self._restore(state)
        self._cpu, self._wall = state["cpu"], state["wall"]
        self.random.bit_generator.state = state["random"]


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
