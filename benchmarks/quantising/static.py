"""ONNX Runtime's static quantisation of the same float net: uint8 activations, int8 weights per channel, QDQ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)
from torch import Tensor

from benchmarks.quantising.quiet import errors_only

METHODS = {
    "ort_minmax": CalibrationMethod.MinMax,
    "ort_percentile": CalibrationMethod.Percentile,
    "ort_entropy": CalibrationMethod.Entropy,
}


class _Batches(CalibrationDataReader):  # type: ignore[misc]  # ONNX Runtime carries no types
    def __init__(self, batches: Sequence[Tensor]) -> None:
        self._left = iter(batches)

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next batch, or None behind the last."""
        batch = next(self._left, None)
        return None if batch is None else {"x": batch.contiguous().numpy()}


def static(model: bytes, batches: Sequence[Tensor], method: str, folder: Path) -> bytes:
    """The model quantised with calibration `method`; `folder` takes the files that it works with."""
    given, made = folder / "float.onnx", folder / "static.onnx"
    given.write_bytes(model)
    with errors_only():
        quantize_static(
            str(given), str(made), _Batches(batches), quant_format=QuantFormat.QDQ, per_channel=True,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, calibrate_method=METHODS[method],
            extra_options={"CalibPercentile": 99.999},
        )  # fmt: skip
    return made.read_bytes()
