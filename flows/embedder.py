"""The trainer's view through the devices' eyes: segment vectors of a received clip.

Runs the very quality net that ships in the bundle (INT8, through ONNX Runtime) and cuts its features to the same
4-bit codes that a device would send, so a stand-in and a hard segment are compared like with like.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from contracts.features import quantize_codes, segment_vector
from flows.data.clips import Frames
from flows.errors import FlowError
from flows.inference import cpu_session

SEGMENT_FRAMES = 3


@dataclass(frozen=True)
class _Output:
    """Where a quantised output sits on the byte grid."""

    scale: float
    zero_point: int

    def bytes(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        codes = np.rint(values / np.float32(self.scale)) + self.zero_point
        return np.asarray(np.clip(codes, 0, 255), dtype=np.uint8)


class SegmentEmbedder:
    """Feature codes, segment vectors and pooled embeddings of received frames."""

    def __init__(self, quality_onnx: bytes) -> None:
        model = onnx.load_from_string(quality_onnx)
        self._session = cpu_session(quality_onnx)
        self._input = self._session.get_inputs()[0].name
        self._features = _output_grid(model, "features")

    def codes(self, frames: Frames) -> NDArray[np.uint8]:
        """4-bit codes [n, h/32, w/32, 16] of received frames [n, h, w, 3]."""
        maps = []
        for frame in frames:
            image = np.ascontiguousarray(frame.transpose(2, 0, 1)[None], dtype=np.float32) / np.float32(255)
            (features,) = self._session.run(["features"], {self._input: image})
            maps.append(self._features.bytes(features[0].transpose(1, 2, 0)))
        return quantize_codes(np.stack(maps))

    def embeddings(self, frames: Frames) -> NDArray[np.float32]:
        """Pooled embeddings [n, 256] of received frames."""
        pooled = []
        for frame in frames:
            image = np.ascontiguousarray(frame.transpose(2, 0, 1)[None], dtype=np.float32) / np.float32(255)
            (embedding,) = self._session.run(["embedding"], {self._input: image})
            pooled.append(embedding[0].mean(axis=(1, 2)))
        return np.stack(pooled).astype(np.float32)

    def segments(self, frames: Frames, length: int = SEGMENT_FRAMES) -> NDArray[np.float32]:
        """One vector [32] for every run of `length` frames; a shorter clip gives one vector. Shape [k, 32]."""
        codes = self.codes(frames)
        starts = range(0, max(1, len(codes) - length + 1), length)
        return np.stack([segment_vector(codes[start : start + length]) for start in starts])


def _output_grid(model: onnx.ModelProto, name: str) -> _Output:
    """Scale and zero point of the DequantizeLinear that makes a graph output."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if name in node.output and node.op_type == "DequantizeLinear":
            zero = int(constants[node.input[2]].item()) if len(node.input) > 2 else 0
            return _Output(float(constants[node.input[1]].item()), zero)
    raise FlowError(f"quality net has no quantised output {name!r}; export it again with `edgeloop seed`")
