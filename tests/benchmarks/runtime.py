"""ONNX Runtime sessions for the tests of the benches: one thread, no optimisation that could leave the integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from benchmarks.reference_nets.exact_session import exact_session, literal_session

Image = npt.NDArray[np.uint8]


def session(model: bytes) -> ort.InferenceSession:
    """A session on one thread whose integers are those of the model."""
    return exact_session(model)


def run_integers(model: bytes, frame: Image) -> Image:
    """A net of integer operators on one uint8 frame."""
    (y,) = session(model).run(["y"], {"x": frame[None]})
    return np.asarray(y[0], np.uint8)


def run_floats(model: bytes, frame: Image) -> npt.NDArray[np.float32]:
    """A QDQ net on one frame; rows, cols, channels."""
    planes = frame.transpose(2, 0, 1)[None].astype(np.float32) / np.float32(255)
    (y,) = literal_session(model).run(["y"], {"x": planes})
    return np.asarray(y[0].transpose(1, 2, 0), np.float32)
