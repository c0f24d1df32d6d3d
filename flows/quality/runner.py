"""Runs an exported quality net on frames and gives exactly what a device observes: bytes, codes, pooled embedding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contracts.features import quantize_codes, segment_vector
from flows.data.clips import Frames
from flows.inference import cpu_session

_FEATURE_STEPS = 255.0


@dataclass(frozen=True)
class Observation:
    """Feature bytes [n, rows, cols, 16] and pooled embeddings [n, 256] in real units."""

    features: NDArray[np.uint8]
    embedding: NDArray[np.float32]

    @property
    def codes(self) -> NDArray[np.uint8]:
        """4-bit codes of the features, same shape."""
        return quantize_codes(self.features)

    @property
    def vector(self) -> NDArray[np.float32]:
        """The 32-d vector of all frames as one segment."""
        return segment_vector(self.codes)


class QualityRunner:
    """ONNX Runtime on one thread; features lie on the 1/255 grid by construction."""

    def __init__(self, model: bytes) -> None:
        self._session = cpu_session(model)

    def observe(self, frames: Frames) -> Observation:
        """Observe received frames [n, h, w, 3]."""
        features, embeddings = [], []
        for image in frames:
            x = np.ascontiguousarray(image.transpose(2, 0, 1)[None], np.float32) / np.float32(255.0)
            real, embedding = self._session.run(["features", "embedding"], {"x": x})
            features.append(np.rint(real[0] * _FEATURE_STEPS).astype(np.uint8).transpose(1, 2, 0))
            embeddings.append(embedding[0].mean(axis=(1, 2)))
        return Observation(np.stack(features), np.stack(embeddings).astype(np.float32))
