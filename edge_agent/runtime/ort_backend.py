"""The backend `onnxruntime`: the bundle's ONNX sources on the CPU, for the time that the NPU is not to be
trusted.

Results are within 1 LSB of the NPU's (float QDQ against integers). Sessions are made at the first frame, and
shared by all devices of a process that run the same bundle. Time is the host's, so none is reported. The profiles
of the programs say what the ONNX sources do not: how many pictures of streams lie below each other in a frame, and
what the net keeps from frame to frame.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from contracts.bundle import Bundle
from contracts.npu.program import OutputTensor, Profile
from edge_agent.runtime.backend import (
    BackendFailed,
    BackendOptions,
    FrameUnfit,
    Observation,
    Pixels,
    Upscaled,
)

SESSIONS_KEPT = 8
NEXT = "_next"
"""What follows a state's name in the name of the output that the next frame reads."""
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
    model: Mapping[tuple[int, int], Profile]
    quality: Mapping[tuple[int, int], Profile]


class OrtBackend:
    """ONNX Runtime on one CPU thread."""

    name = "onnxruntime"

    def __init__(self, options: BackendOptions) -> None:
        self._options = options
        self._loaded: _Loaded | None = None
        self._states = States()

    @property
    def sizes(self) -> Sequence[tuple[int, int]]:
        return tuple(self._ready().model)

    def load(self, bundle: Bundle, device_class: str) -> None:
        model, quality = (_by_size(bundle.program(device_class, name).profiles) for name in ("model", "quality"))
        bundle.piece("model.onnx")
        bundle.piece("quality.onnx")
        self._loaded = _Loaded(bundle, model, quality)
        self.reset()

    def reset(self) -> None:
        """Begin a new stream."""
        self._states = States()

    def upscale(self, frame: Pixels) -> Upscaled:
        profile = _profile(self._ready().model, frame)
        output, kept = profile.outputs[0], self._states.of(profile)
        names = [output.name, *(f"{name}{NEXT}" for name in kept)]
        image, *after = self._run("model.onnx", frame, profile.streams, names, kept)
        self._states.keep(profile, dict(zip(kept, after, strict=True)))
        return Upscaled(_quantized(image, output), None)

    def observe(self, frame: Pixels) -> Observation:
        profile = _profile(self._ready().quality, frame)
        outputs = {output.name: output for output in profile.outputs}
        features, embedding = self._run("quality.onnx", frame, profile.streams, ["features", "embedding"], {})
        pooled = embedding[0].mean(axis=(1, 2), dtype=np.float64).astype(np.float32)
        return Observation(_quantized(features, outputs["features"]), pooled, None)

    def _ready(self) -> _Loaded:
        if self._loaded is None:
            raise BackendFailed("backend onnxruntime has no bundle; call load first")
        return self._loaded

    def _run(
        self, piece: str, frame: Pixels, streams: int, outputs: list[str], kept: Mapping[str, Floats]
    ) -> list[Floats]:
        """Return outputs as [1, c, h, w]; those of several streams below each other, as the programs give them."""
        planes = np.ascontiguousarray(frame.transpose(2, 0, 1)[None], np.float32) * np.float32(1 / 255)
        try:
            session = _PROCESS_SESSIONS.get(self._ready().bundle, piece)
            entry = next(item.name for item in session.get_inputs() if item.name not in kept)
            results = [session.run(outputs, {entry: one, **kept}) for one in np.split(planes, streams, axis=2)]
        except Exception as error:  # ONNX Runtime has no public base class of its errors
            raise BackendFailed(f"ONNX Runtime failed at {piece}: {error}") from error
        return [np.concatenate(parts, axis=2) for parts in zip(*results, strict=True)]


class States:
    """What the net keeps from frame to frame, as real numbers [1, c, h, w]; zero before the first frame."""

    def __init__(self) -> None:
        self._size: tuple[int, int] | None = None
        self._kept: dict[str, Floats] = {}

    def of(self, profile: Profile) -> dict[str, Floats]:
        """Return the states that the next frame sees; another size begins a new stream."""
        if self._size != _size(profile):
            return {
                state.name: np.zeros((1, state.channels, state.height, state.width), np.float32)
                for state in profile.states
            }
        return dict(self._kept)

    def keep(self, profile: Profile, states: dict[str, Floats]) -> None:
        """Keep what a frame left."""
        self._size, self._kept = _size(profile), states


def _size(profile: Profile) -> tuple[int, int]:
    return profile.input_height, profile.input_width


def _by_size(profiles: Sequence[Profile]) -> dict[tuple[int, int], Profile]:
    """Return profiles by height and width, of several widths of a net the first one."""
    found: dict[tuple[int, int], Profile] = {}
    for profile in profiles:
        found.setdefault(_size(profile), profile)
    return found


def _profile(profiles: Mapping[tuple[int, int], Profile], frame: Pixels) -> Profile:
    fits = frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3
    profile = profiles.get((frame.shape[0], frame.shape[1])) if fits else None
    if profile is None:
        raise FrameUnfit(f"a frame of {frame.dtype} {frame.shape}; give uint8 RGB of one of {tuple(profiles)}")
    return profile


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
