"""Small real inputs for the builds service: evaluation sets, observers, uploads."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from contracts.statistics.observer import ObserverParameters
from flows.inference import cpu_session


def evaluation_npz(label: str = "normal", **changes: Any) -> bytes:
    """An evaluation set of four smooth 48 x 64 frames in two clips; `changes` replace members (None drops one)."""
    rng = np.random.default_rng(5)
    small = rng.integers(40, 200, (4, 12, 16, 3), dtype=np.uint8)
    hr = small.repeat(8, axis=1).repeat(8, axis=2)
    lr = hr[:, ::2, ::2]
    members: dict[str, Any] = {
        "name": np.array(label),
        "condition": np.array("hard" if label.startswith("hard") else "normal"),
        "lr": lr,
        "hr": hr,
        "clip": np.array([0, 0, 1, 1]),
    }
    members.update(changes)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{key: value for key, value in members.items() if value is not None})
    return buffer.getvalue()


def observer_npz() -> bytes:
    """Observer parameters of the right form."""
    rng = np.random.default_rng(1)
    return ObserverParameters(
        embedding_id="0123456789abcdef",
        mu0=np.zeros(256, np.float32),
        sd0=np.ones(256, np.float32),
        projection=rng.normal(size=(28, 256)).astype(np.float32),
        directions=rng.normal(size=(8, 256)).astype(np.float32),
        edges=np.sort(rng.normal(size=(8, 15)), axis=1).astype(np.float32),
        score_w=np.zeros(256, np.float32),
        score_b=0.0,
        tau=1.0,
    ).to_bytes()


def model_set(model: bytes, name: str = "normal", size: tuple[int, int] = (48, 64), frames: int = 4) -> bytes:
    """An evaluation set whose truth is what `model` itself gives, so that exactly this model is perfect on it."""
    height, width = size
    rng = np.random.default_rng(3)
    small = rng.integers(30, 220, (frames, height // 8, width // 8, 3), dtype=np.uint8)
    lr = small.repeat(8, axis=1).repeat(8, axis=2)
    session = cpu_session(model)
    feeds = (lr.astype(np.float32) / np.float32(255)).transpose(0, 3, 1, 2)
    outputs = [session.run(None, {"x": feed[None]})[0][0].transpose(1, 2, 0) for feed in feeds]
    hr = np.clip(np.rint(np.stack(outputs) * 255), 0, 255).astype(np.uint8)
    return evaluation_npz(name, lr=lr, hr=hr, clip=np.arange(frames) // 2)


def with_broken_calibration(model: bytes, factor: float = 8.0) -> bytes:
    """The same weights, but one activation's scale is `factor` times too large: finer values are lost."""
    proto = onnx.load_model_from_string(model)
    for tensor in proto.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if tensor.name in ("tail_dq_scale", "shuffled_dq_scale"):
            tensor.CopyFrom(numpy_helper.from_array(np.asarray(value * np.float32(factor)), tensor.name))
    return bytes(proto.SerializeToString(deterministic=True))


def with_unsupported_operator(model: bytes) -> bytes:
    """The model with a node that no NPU has."""
    proto = onnx.load_model_from_string(model)
    last = proto.graph.output[0].name
    for node in proto.graph.node:
        for index, output in enumerate(node.output):
            if output == last:
                node.output[index] = "before_erf"
    proto.graph.node.append(helper.make_node("Erf", ["before_erf"], [last], name="strange_erf"))
    return bytes(proto.SerializeToString(deterministic=True))
