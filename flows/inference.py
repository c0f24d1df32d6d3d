"""ONNX Runtime sessions of the flows: one thread, and sums that never saturate."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort


def cpu_session(
    model: bytes, level: ort.GraphOptimizationLevel = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
) -> ort.InferenceSession:
    """A session whose integer results are the same on every CPU.

    Without VNNI the fast unsigned-by-signed kernel saturates its 16-bit sums; the session asks for the exact one.
    """
    options = ort.SessionOptions()
    options.graph_optimization_level, options.intra_op_num_threads, options.log_severity_level = level, 1, 3
    options.add_session_config_entry("session.x64quantprecision", "1")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class Stream:
    """One stream through a session: what the net keeps (input `history`, output `history_next`) goes on by itself."""

    def __init__(self, session: ort.InferenceSession) -> None:
        self._session = session
        self._states = {entry.name: int(entry.shape[1]) for entry in session.get_inputs()[1:]}
        self._kept: dict[str, np.ndarray] = {}

    def next(self, x: np.ndarray) -> np.ndarray:
        """The first output for the next frame [1, 3, h, w], h and w even; states begin as zeros at half the size."""
        if not self._states:
            return np.asarray(self._session.run(None, {"x": x})[0])
        rows, columns = x.shape[2] // 2, x.shape[3] // 2
        zeros = {name: np.zeros((1, count, rows, columns), np.float32) for name, count in self._states.items()}
        names = [entry.name for entry in self._session.get_outputs()]
        found = dict(zip(names, self._session.run(None, {"x": x, **zeros, **self._kept}), strict=True))
        self._kept = {name: np.asarray(found[f"{name}_next"]) for name in self._states}
        return np.asarray(found[names[0]])
