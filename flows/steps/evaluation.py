"""Evaluation sets: held-out clips with ground truth, one set for each condition and frame size."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from torch import nn

from flows.data.clips import Frames
from flows.data.degrade import NORMAL, Degradation
from flows.data.pairs import Pair, View, make_pairs
from flows.errors import FlowError
from flows.steps.context import RunContext
from flows.tasks.task import Task
from flows.tasks.vsr.task import VSR

FRAMES = 12
SEED = 77


@dataclass(frozen=True)
class EvaluationFrames:
    """Pairs of one condition and one frame size, ready to upload as `archive`."""

    name: str
    condition: str
    pairs: tuple[Pair, ...]
    task: Task = VSR

    @property
    def archive(self) -> bytes:
        """npz with `name`, `condition`, `lr`, `hr` and the number of the clip of each frame."""
        buffer = io.BytesIO()
        numbers = [np.full(len(pair.low), index, np.int32) for index, pair in enumerate(self.pairs)]
        np.savez_compressed(
            buffer,
            name=np.array(self.name),
            condition=np.array(self.condition),
            lr=np.concatenate([pair.low for pair in self.pairs]),
            hr=np.concatenate([pair.high for pair in self.pairs]),
            clip=np.concatenate(numbers),
        )
        return buffer.getvalue()

    def psnr(self, model: nn.Module | bytes) -> float:
        """Mean over frames of RGB PSNR on whole frames in dB: the gate's own definition."""
        upscale = self.task.runner(model)
        return float(
            np.mean(
                [_frame_psnr(a, b) for pair in self.pairs for a, b in zip(upscale(pair.low), pair.high, strict=True)]
            )
        )


def evaluation_frames(run: RunContext, conditions: dict[str, Degradation], prefix: str) -> list[EvaluationFrames]:
    """Sets of every condition; clips of fewer than 12 frames at half rate are left out."""
    found = []
    for condition, degradation in conditions.items():
        by_size: dict[tuple[int, int], list[Pair]] = {}
        for clip, view in run.held_out_clips:
            if clip.frames >= 2 * FRAMES:
                look = View(view.scale, 2, FRAMES)
                for pair in make_pairs([clip], [degradation.with_seed(SEED)], (look,), run.task.pair).pairs:
                    by_size.setdefault((pair.low.shape[1], pair.low.shape[2]), []).append(pair)
        for (rows, columns), pairs in sorted(by_size.items()):
            found.append(EvaluationFrames(f"{prefix}-{condition}-{rows}x{columns}", condition, tuple(pairs), run.task))
    return found


def check_judged(task: Task) -> None:
    """Raises FlowError, before anything is done, when the gate could not judge what the task makes of a frame."""
    made = task.output_size(16, 32)
    if made != (32, 64):
        raise FlowError(
            f"task {task.name} makes {made[0]}x{made[1]} of 16x32; the gate judges frames of twice the size, "
            "so a whole run of it cannot be released: run the steps of `flows.steps` that you need"
        )


def conditions_of(strongest: tuple[Degradation, ...]) -> dict[str, Degradation]:
    """Normal, and the hard condition that reached most segments when there is one."""
    return {"normal": NORMAL, **({"hard": strongest[0]} if strongest else {})}


def _frame_psnr(ours: Frames, truth: Frames) -> float:
    error = float(np.mean((ours.astype(np.float32) - truth.astype(np.float32)) ** 2, dtype=np.float64))
    return 100.0 if error == 0.0 else min(100.0, float(10.0 * np.log10(255.0**2 / error)))
