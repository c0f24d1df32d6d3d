"""Quality of a network on pairs: PSNR (luma and RGB), flicker. Everything is judged on 8-bit outputs.

PSNR is the mean over frames of the per-frame value, so that a dark clip does not outweigh a bright one. Flicker is
the mean absolute difference between the output's and the target's frame-to-frame change, in LSB.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from flows.data.clips import Frames
from flows.data.pairs import PairSet
from flows.inference import Stream, cpu_session
from flows.tasks.vsr.history import Player

Upscaler = Callable[[Frames], Frames]
_LUMA = np.array([65.481, 128.553, 24.966]) / 255.0
_SHAVE = 2


@dataclass(frozen=True)
class Metrics:
    """Means over all frames of a pair set; dB and LSB. `other` is what decides in a task that luma PSNR does not."""

    psnr_y: float
    psnr_rgb: float
    flicker: float
    frames: int
    per_pair: tuple[tuple[str, float, float], ...] = ()
    other: float | None = None

    @property
    def quality(self) -> float:
        """What decides between networks (`Task.quality_name`, `Task.quality_unit`); larger is better."""
        return self.psnr_y if self.other is None else self.other

    def better_than(self, other: Metrics) -> float:
        """Gain in luma PSNR, dB."""
        return self.psnr_y - other.psnr_y


def evaluate(model: nn.Module | bytes | Upscaler, pairs: PairSet) -> Metrics:
    """Run a torch module, ONNX bytes or a callable (u8 [n,h,w,3] -> u8 [n,2h,2w,3]) over all pairs."""
    upscale = as_upscaler(model)
    luma: list[np.ndarray] = []
    colour: list[np.ndarray] = []
    flicker: list[float] = []
    rows: list[tuple[str, float, float]] = []
    for pair in pairs.pairs:
        output = upscale(pair.low)
        y, rgb = psnr_y(output, pair.high), psnr_rgb(output, pair.high)
        luma.append(y)
        colour.append(rgb)
        flicker.append(flicker_of(output, pair.high))
        rows.append((f"{pair.clip} {pair.degradation.to_json()}", float(y.mean()), float(rgb.mean())))
    frames = sum(len(pair.low) for pair in pairs.pairs)
    return Metrics(
        float(np.concatenate(luma).mean()),
        float(np.concatenate(colour).mean()),
        float(np.mean(flicker)),
        frames,
        tuple(rows),
    )


def as_upscaler(model: nn.Module | bytes | Upscaler) -> Upscaler:
    """One calling convention for modules, ONNX bytes and callables."""
    if isinstance(model, bytes):
        return _onnx_upscaler(model)
    if isinstance(model, nn.Module):
        return _torch_upscaler(model)
    return model


def psnr_rgb(output: Frames, target: Frames) -> np.ndarray:
    """Per-frame RGB PSNR in dB, two border pixels left out."""
    error = (_inner(output).astype(np.float32) - _inner(target).astype(np.float32)) ** 2
    return _decibel(error.mean(axis=(1, 2, 3)))


def psnr_y(output: Frames, target: Frames) -> np.ndarray:
    """Per-frame BT.601 luma PSNR in dB, two border pixels left out."""
    error = (_inner(output).astype(np.float32) - _inner(target).astype(np.float32)) @ _LUMA.astype(np.float32)
    return _decibel((error**2).mean(axis=(1, 2)))


def flicker_of(output: Frames, target: Frames) -> float:
    """Mean |change of output - change of target| between neighbouring frames, LSB; 0 for a single frame."""
    if len(output) < 2:
        return 0.0
    ours = np.diff(output.astype(np.int16), axis=0)
    return float(np.abs(ours - np.diff(target.astype(np.int16), axis=0)).mean())


def _inner(frames: Frames) -> Frames:
    return frames[:, _SHAVE:-_SHAVE, _SHAVE:-_SHAVE]


def _decibel(mse: np.ndarray) -> np.ndarray:
    return np.asarray(10.0 * np.log10(255.0**2 / np.maximum(mse, 1e-3)), np.float64)


def _torch_upscaler(model: nn.Module) -> Upscaler:
    def run(low: Frames) -> Frames:
        model.eval()
        play, outputs = Player(model), []
        with torch.inference_mode():
            for image in low:
                x = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None].float() / 255.0
                y = play(x.contiguous(memory_format=torch.channels_last))
                outputs.append((y[0].clamp(0, 1) * 255.0).round().to(torch.uint8).permute(1, 2, 0).numpy())
        return np.stack(outputs)

    return run


def _onnx_upscaler(model: bytes) -> Upscaler:
    session = cpu_session(model)

    def run(low: Frames) -> Frames:
        stream, outputs = Stream(session), []
        for image in low:
            x = np.ascontiguousarray(image.transpose(2, 0, 1)[None], np.float32) / np.float32(255.0)
            y = stream.next(x)
            outputs.append(np.rint(np.clip(y[0], 0, 1) * 255.0).astype(np.uint8).transpose(1, 2, 0))
        return np.stack(outputs)

    return run
