"""What a quantiser is asked for, and what it leaves; read and written on both sides of the environment."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peers.quantisers.unshare import unshare
from benchmarks.quantising.material import Material, learned
from benchmarks.quantising.steps import train
from benchmarks.teaching.anchor import load_anchor
from benchmarks.teaching.plain import PlainNet

TASK, MODEL, FAKE, TOLD = "task.json", "model.onnx", "fake.npz", "told.json"


@dataclass(frozen=True)
class Task:
    """`start` and `frames` are files: the float weights, and frames [n, h, w, 3] to show the fake quantisation on."""

    start: str
    frames: str
    seed: int
    steps: int
    rate: float

    def write(self, folder: Path) -> None:
        """Into the peer's folder."""
        (folder / TASK).write_text(json.dumps(asdict(self)))


@dataclass(frozen=True)
class Work:
    """One quantiser's side of a task."""

    folder: Path
    task: Task
    material: Material

    @staticmethod
    def of(folder: Path) -> Work:
        """Read the task and the pictures."""
        torch.set_num_threads(1)
        task = Task(**json.loads((folder / TASK).read_text()))
        torch.manual_seed(task.seed)
        return Work(folder, task, learned())

    def net(self) -> PlainNet:
        """The float start."""
        return load_anchor(Path(self.task.start))

    def calibration(self) -> list[Tensor]:
        """The batches that everybody calibrates on."""
        return self.material.calibration(self.task.seed)

    def frames(self) -> list[Tensor]:
        """Inputs [1, 3, h, w] of the frames to show."""
        stored = np.load(self.task.frames, allow_pickle=False)
        return [
            torch.from_numpy(np.ascontiguousarray(f.transpose(2, 0, 1)[None], np.float32) / np.float32(255))
            for f in stored
        ]

    def train(self, model: nn.Module, forward: Callable[[Tensor], Tensor], slow: str | None = None) -> None:
        """The task's steps; parameters with `slow` in their name learn a hundred times slower (raw scales need it)."""
        groups = {slow: 0.01} if slow else {}
        train(model, forward, self.task.seed, self.task.steps, self.task.rate, self.material, None, groups)

    def leave(self, package: str, outputs: list[Tensor]) -> None:
        """Fake-quantised outputs of `frames`, CPU seconds so far and the version; `model.onnx` lies there already."""
        unshare(self.folder / MODEL)
        arrays = [output.detach().float().numpy() for output in outputs]
        np.savez(self.folder / FAKE, *arrays)
        told = {"cpu_s": round(time.process_time(), 1), "version": version(package)}
        (self.folder / TOLD).write_text(json.dumps(told))
