"""ONNX Runtime sessions of the flows: one thread, and sums that never saturate."""

from __future__ import annotations

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
