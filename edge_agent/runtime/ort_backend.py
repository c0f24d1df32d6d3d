"""The backend `onnxruntime`: the bundle's ONNX sources on the CPU, for the time that the NPU is not to be
trusted.

Results are within 1 LSB of the NPU's (float QDQ against integers). Sessions are made at the first frame, and
shared by all devices of a process that run the same bundle. Time is the host's, so none is reported.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from contracts.bundle import Bundle
from contracts.npu.program import OutputTensor
from edge_agent.runtime.backend import (
    BackendFailed,
    BackendOptions,
    FrameUnfit,
    Observation,
    Pixels,
    Upscaled,
)

SESSIONS_KEPT = 8
Floats = NDArray[np.float32]


class Sessions:
    """Sessions by bundle digest and piece, the least recently used dropped."""

    def __init__(self, keep: int = SESSIONS_KEPT) -> None:
        self._keep = keep
        self._sessions: OrderedDict[tuple[str, str], onnxruntime.InferenceSession] = OrderedDict()
        self._lock = Lock()

    def get(self, bundle: Bundle, piece: str) -> onnxruntime.InferenceSession:
        """Return the session of a piece, made when it is not there."""
        key = (bundle.digest, piece)
        with self._lock:
            if key not in self._sessions:
                self._sessions[key] = _session(bytes(bundle.piece(piece)))
            self._sessions.move_to_end(key)
            while len(self._sessions) > self._keep:
                self._sessions.popitem(last=False)
            return self._sessions[key]


_PROCESS_SESSIONS = Sessions()


@dataclass(frozen=True)
class _Loaded:
    bundle: Bundle
    sizes: tuple[tuple[int, int], ...]
    image: OutputTensor
    quality: dict[str, OutputTensor]


class OrtBackend:
    """ONNX Runtime on one CPU thread."""

    name = "onnxruntime"

    def __init__(self, options: BackendOptions) -> None:
        self._options = options
        self._loaded: _Loaded | None = None

    @property
    def sizes(self) -> Sequence[tuple[int, int]]:
        return self._ready().sizes

    def load(self, bundle: Bundle, device_class: str) -> None:
        model = bundle.program(device_class, "model").profiles
        quality = bundle.program(device_class, "quality").profiles[0]
        bundle.piece("model.onnx")
        bundle.piece("quality.onnx")
        sizes = tuple((profile.input_height, profile.input_width) for profile in model)
        self._loaded = _Loaded(bundle, sizes, model[0].outputs[0], {out.name: out for out in quality.outputs})

    def upscale(self, frame: Pixels) -> Upscaled:
        loaded = self._ready()
        image = self._run("model.onnx", frame, [loaded.image.name])[0]
        return Upscaled(_quantized(image, loaded.image), None)

    def observe(self, frame: Pixels) -> Observation:
        loaded = self._ready()
        features, embedding = self._run("quality.onnx", frame, ["features", "embedding"])
        codes = _quantized(features, loaded.quality["features"])
        pooled = embedding[0].mean(axis=(1, 2), dtype=np.float64).astype(np.float32)
        return Observation(codes, pooled, None)

    def _ready(self) -> _Loaded:
        if self._loaded is None:
            raise BackendFailed("backend onnxruntime has no bundle; call load first")
        return self._loaded

    def _run(self, piece: str, frame: Pixels, outputs: list[str]) -> list[Floats]:
        loaded = self._ready()
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[:2] not in loaded.sizes or frame.shape[2] != 3:
            raise FrameUnfit(f"a frame of {frame.dtype} {frame.shape}; give uint8 RGB of one of {loaded.sizes}")
        planes = np.ascontiguousarray(frame.transpose(2, 0, 1)[None], np.float32) * np.float32(1 / 255)
        try:
            session = _PROCESS_SESSIONS.get(loaded.bundle, piece)
            return list(session.run(outputs, {session.get_inputs()[0].name: planes}))
        except Exception as error:  # ONNX Runtime has no public base class of its errors
            raise BackendFailed(f"ONNX Runtime failed at {piece}: {error}") from error


def _quantized(values: Floats, output: OutputTensor) -> Pixels:
    """Return [1, c, h, w] of real values as uint8 [h, w, c] codes of `output`."""
    codes = np.rint(values[0].transpose(1, 2, 0) / np.float32(output.scale)) + output.zero_point
    return np.ascontiguousarray(np.clip(codes, 0, 255), np.uint8)


def _session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Without VNNI the fast u8 x s8 kernel saturates its 16-bit sums; this asks for the exact one.
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
