"""dB of a model on the judged person, and how far two computations of the same INT8 model are apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch import nn

from compiler.driver import compile_program
from contracts.npu import Program
from edge_agent.runtime.npu import NpuDevice
from flows.data.clips import Frames
from flows.data.pairs import Pair, PairSet
from flows.inference import cpu_session
from flows.tasks.vsr.metrics import evaluate

TARGET = "npu-4t"


@dataclass(frozen=True)
class Quality:
    """Mean over all judged frames, dB, two border pixels left out."""

    rgb: float
    luma: float


@dataclass(frozen=True)
class Distance:
    """Largest difference in output steps, share of values that differ at all, values compared."""

    steps: float
    share: float
    values: int


def quality(model: nn.Module | bytes, clips: Sequence[Pair]) -> Quality:
    """Of a torch net or of an ONNX model in ONNX Runtime, on 8-bit outputs."""
    found = evaluate(model, PairSet(tuple(clips)))
    return Quality(found.psnr_rgb, found.psnr_y)


def proof_frames(clips: Sequence[Pair]) -> Frames:
    """One judged frame a clip."""
    return np.stack([clip.low[len(clip.low) // 2] for clip in clips])


def fake_outputs(network: nn.Module, frames: Frames, *, exact: bool) -> list[NDArray[np.float32]]:
    """What fake quantisation gives: as trained (float sums), or `exact` as the device computes."""
    network.train(not exact)
    with torch.inference_mode():
        return [np.asarray(network(torch.from_numpy(x)).numpy(), np.float32) for x in inputs(frames)]


def runtime_outputs(model: bytes, frames: Frames, *, fused: bool = True) -> list[NDArray[np.float32]]:
    """What ONNX Runtime gives, with integer operators or without any optimisation."""
    levels = onnxruntime.GraphOptimizationLevel
    session = cpu_session(model, levels.ORT_ENABLE_ALL if fused else levels.ORT_DISABLE_ALL)
    name = session.get_inputs()[0].name
    return [np.asarray(session.run(None, {name: x})[0], np.float32) for x in inputs(frames)]


def distance(one: Sequence[NDArray[np.float32]], other: Sequence[NDArray[np.float32]], scale: float) -> Distance:
    """Differences in steps of `scale`; half a step or more counts as another code."""
    gaps = np.concatenate([np.abs(a.astype(np.float64) - b).ravel() for a, b in zip(one, other, strict=True)]) / scale
    return Distance(float(gaps.max()), float((gaps > 0.5).mean()), len(gaps))


def device_differences(model: bytes, frames: Frames, tell: Callable[[float], None] = lambda _: None) -> tuple[int, int]:
    """Bytes in which the emulated device and ONNX Runtime's integer graph differ, of how many; noise comes last."""
    noise = np.random.default_rng(0).integers(0, 256, frames[:1].shape, dtype=np.uint8)
    played = np.concatenate((frames, noise))
    height, width = played.shape[1:3]
    device = NpuDevice(TARGET, jitter=0.0)
    loaded = device.load(Program.open(compile_program(model, TARGET, [(height, width)])[0]))
    different = total = 0
    for index, (frame, y) in enumerate(zip(played, runtime_outputs(model, played), strict=True)):
        (image,) = device.infer(loaded, frame).outputs.values()
        wanted = np.rint(np.clip(y[0], 0, 1) * 255.0).astype(np.uint8).transpose(1, 2, 0)
        different += int((image != wanted).sum())
        total += wanted.size
        tell((index + 1) / len(played))
    return different, total


def inputs(frames: Frames) -> list[NDArray[np.float32]]:
    """Network inputs [1, 3, h, w] of frames [n, h, w, 3]."""
    return [np.ascontiguousarray(f.transpose(2, 0, 1)[None], np.float32) / np.float32(255.0) for f in frames]
