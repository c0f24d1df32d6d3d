"""ONNX Runtime sessions for the tests of the benches: one thread, no optimisation that could leave the integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

Image = npt.NDArray[np.uint8]


def session(model: bytes) -> ort.InferenceSession:
    """A session on one thread, without graph optimisation."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.x64quantprecision", "1")  # exact also without VNNI
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run_integers(model: bytes, frame: Image) -> Image:
    """A net of integer operators on one uint8 frame."""
    (y,) = session(model).run(["y"], {"x": frame[None]})
    return np.asarray(y[0], np.uint8)


def run_floats(model: bytes, frame: Image) -> npt.NDArray[np.float32]:
    """A QDQ net on one frame; rows, cols, channels."""
    planes = frame.transpose(2, 0, 1)[None].astype(np.float32) / np.float32(255)
    (y,) = session(model).run(["y"], {"x": planes})
    return np.asarray(y[0].transpose(1, 2, 0), np.float32)
