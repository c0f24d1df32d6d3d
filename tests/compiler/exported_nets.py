"""Nets as the tools make them: torch's exporter, then ONNX Runtime's static quantisation in both formats."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from torch import nn

from benchmarks.quantising.quiet import errors_only

SIZE = (24, 32)


class Vsr(nn.Module):
    """Residual super-resolution with PixelUnshuffle, PReLU, PixelShuffle and a bilinear anchor."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(12, 12, 3, padding=1), nn.PReLU(12))
        self.body = nn.Sequential(nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1))
        self.tail = nn.Sequential(nn.Conv2d(12, 48, 3, padding=1), nn.PixelShuffle(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[1, 3, H, W] -> [1, 3, 2H, 2W]."""
        trunk = self.head(x)
        trunk = trunk + self.body(trunk)
        anchor = nn.functional.interpolate(x, scale_factor=2, mode="nearest")
        return self.tail(trunk) * 0.1 + anchor


class Mobile(nn.Module):
    """A light backbone: depthwise, squeeze and excite, hard swish, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Hardswish())
        self.depthwise = nn.Sequential(nn.Conv2d(8, 8, 5, padding=2, groups=8), nn.ReLU6())
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.Sigmoid())
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.head = nn.Sequential(
            nn.Conv2d(16, 16, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[1, 3, H, W] -> [1, 10]."""
        x = self.stem(x)
        y = self.depthwise(x)
        y = y * self.gate(y)
        return self.head(torch.cat([self.pool(x), self.pool(y)], dim=1))


NETS: Mapping[str, Callable[[], nn.Module]] = {"vsr": Vsr, "mobile": Mobile}


class _Frames(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime ships no types
    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self._frames = iter([{"x": random.random((1, 3, *SIZE), dtype=np.float32)} for _ in range(3)])

    def get_next(self) -> dict[str, np.ndarray] | None:  # type: ignore[type-arg]  # float32
        """The next calibration frame."""
        return next(self._frames, None)


@lru_cache
def exported(name: str) -> bytes:
    """The float model from torch's exporter."""
    torch.manual_seed(0)
    net = NETS[name]().eval()
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = torch.zeros(1, 3, *SIZE)
        torch.onnx.export(net, (frame,), buffer, input_names=["x"], output_names=["y"], opset_version=17, dynamo=False)
    return buffer.getvalue()


@lru_cache
def quantized(name: str, form: str, activations: str, per_channel: bool) -> bytes:
    """The same through ``quantize_static``: form QDQ or QOperator, activations u8 or s8."""
    with errors_only(), tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source, target = Path(folder) / "float.onnx", Path(folder) / "quantized.onnx"
        source.write_bytes(exported(name))
        quantize_static(
            str(source),
            str(target),
            _Frames(),
            quant_format=QuantFormat.QDQ if form == "QDQ" else QuantFormat.QOperator,
            activation_type=QuantType.QUInt8 if activations == "u8" else QuantType.QInt8,
            weight_type=QuantType.QInt8,
            per_channel=per_channel,
        )
        return onnx.load(str(target)).SerializeToString()
