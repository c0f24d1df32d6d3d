"""The compiled net on the emulated device, frame after frame, against the clean frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.recurrence.clips import Scene
from compiler.driver import read_model
from compiler.passes.base import apply
from compiler.passes.pipeline import fuse
from compiler.passes.pooled_history import WITH_POOLED_HISTORY, PooledHistory
from compiler.program_builder import build_program
from contracts.npu import Program, load_spec
from edge_agent.runtime.npu import NpuDevice

TARGET = "npu-4t"
WARM = 2
"""Frames of a scene that are not judged: history has to fill first."""


@dataclass(frozen=True)
class Played:
    """PSNR (dB, RGB, over all judged pixels) of each scene; bytes kept between frames, DDR bytes of a frame."""

    psnr: tuple[float, ...]
    state_bytes: int
    ddr_bytes: int

    @property
    def mean(self) -> float:
        """Over scenes."""
        return float(np.mean(self.psnr))


def played(model: bytes, material: Sequence[Scene], *, pooled: bool = False, forget: bool = False) -> Played:
    """Play every scene; `pooled`: the compiler averages the history, `forget`: no frame sees the one before."""
    found, state, traffic = [], 0, 0
    for scene in material:
        program = _program(model, scene.lr.shape[1:3], pooled)
        (profile,) = program.profiles
        state = max(state, sum(entry.height * entry.width * entry.channels for entry in profile.states))
        traffic = max(traffic, profile.ddr_bytes)
        found.append(_psnr(_outputs(program, scene.lr, forget)[WARM:], scene.hr[WARM:]))
    return Played(tuple(found), state, traffic)


def _program(model: bytes, size: tuple[int, ...], pooled: bool) -> Program:
    spec = load_spec(TARGET)
    profiles = read_model("model", model, [(size[0], size[1])]).profiles
    if pooled:
        profiles = [
            replace(
                profile,
                imported=apply(PooledHistory(), profile.imported).graph,
                fused=fuse(profile.imported, WITH_POOLED_HISTORY),
            )
            for profile in profiles
        ]
    return Program.open(build_program(profiles, spec, bytes(16)).data)


def _outputs(program: Program, frames: NDArray[np.uint8], forget: bool) -> NDArray[np.uint8]:
    device = NpuDevice(TARGET, jitter=0.0)
    loaded = device.load(program)
    images = []
    for frame in frames:
        if forget:
            device.reset()
        images.append(device.infer(loaded, frame).outputs["y"])
    return np.stack(images)


def _psnr(images: NDArray[np.uint8], truth: NDArray[np.uint8]) -> float:
    error = float(np.mean((images.astype(np.float64) - truth) ** 2))
    return float(10 * np.log10(255.0**2 / max(error, 1e-9)))
