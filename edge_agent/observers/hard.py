"""Hard examples: which runs of frames the model is weak on.

A segment is taken when the score stays over the threshold for some frames in a row. Four brakes keep the
number low when neighbouring scores are alike: hysteresis (no second segment of one spell), a re-arm time, a
token bucket per day, and suppression of segments whose features nearly equal one already sent. What is kept
is 4-bit codes of at most 16 channels at 1/32 resolution, the cells of each frame sorted.
"""

from __future__ import annotations

import uuid
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contracts.clock import SECONDS_PER_DAY, hour_of
from contracts.device import DeviceTags
from contracts.features import CHANNELS, pack_codes, quantize_codes, segment_vector
from contracts.wire import SegmentUpload
from contracts.wire.limits import LIMITS as WIRE
from edge_agent.observers.places import without_places

Codes = NDArray[np.uint8]
MAX_CODES = 70_000
SCORE_BOUND = 100.0


@dataclass(frozen=True)
class HardSettings:
    """`hysteresis` in dB, `rearm_s` in simulated seconds, `duplicate_distance` in units of the summary
    vector.
    """

    in_a_row: int = 3
    segment_frames: int = 4
    hysteresis: float = 0.1
    rearm_s: float = 6 * 3_600.0
    per_day: float = 6.0
    burst: float = 3.0
    duplicate_distance: float = 0.02
    remembered: int = 32


class TokenBucket:
    """At most `burst` at once and `per_day` a simulated day."""

    def __init__(self, per_day: float, burst: float) -> None:
        self._rate, self._most = per_day / SECONDS_PER_DAY, max(1.0, burst)
        self._tokens, self._last = self._most, float("-inf")

    def take(self, now: float) -> bool:
        if self._last != float("-inf"):
            self._tokens = min(self._most, self._tokens + max(0.0, now - self._last) * self._rate)
        self._last = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


@dataclass(frozen=True)
class HardFrame:
    """One observed frame: features u8 rows x columns x channels, score in dB, motion in LSB."""

    features: NDArray[np.uint8]
    score: float
    motion: float


@dataclass(frozen=True)
class Origin:
    """What a segment says of where it came from: nothing finer than this leaves the device."""

    embedding_id: str
    model_version: str
    tags: DeviceTags
    pseudonym: str


class HardMiner:
    """Turns scored frames into segments."""

    def __init__(self, settings: HardSettings) -> None:
        self._settings = settings
        self._bucket = TokenBucket(settings.per_day, settings.burst)
        self._spell: list[HardFrame] = []
        self._sent_at: float | None = None
        self._recent: deque[NDArray[np.float32]] = deque(maxlen=settings.remembered)
        self.suppressed = 0
        self.throttled = 0

    def observe(self, frame: HardFrame, tau: float, now: float, origin: Origin) -> SegmentUpload | None:
        """Take a frame; return a segment when one is complete."""
        if frame.score <= tau:
            return self._below(frame, tau, now, origin)
        if self._sent_at is not None and now - self._sent_at < self._settings.rearm_s:
            return None
        self._sent_at = None
        self._spell.append(frame)
        return self._emit(now, origin) if len(self._spell) >= self._goal() else None

    def _below(self, frame: HardFrame, tau: float, now: float, origin: Origin) -> SegmentUpload | None:
        segment = self._emit(now, origin) if len(self._spell) >= self._settings.in_a_row else None
        self._spell.clear()
        if frame.score <= tau - self._settings.hysteresis:
            self._sent_at = None
        return segment

    def _goal(self) -> int:
        return max(self._settings.in_a_row, min(self._settings.segment_frames, WIRE.segment_frames))

    def _emit(self, now: float, origin: Origin) -> SegmentUpload | None:
        frames, self._spell = self._spell, []
        self._sent_at = now
        codes = codes_of([frame.features for frame in frames])
        vector = segment_vector(codes)
        if any(float(np.linalg.norm(vector - v)) < self._settings.duplicate_distance for v in self._recent):
            self.suppressed += 1
            return None
        if not self._bucket.take(now):
            self.throttled += 1
            return None
        self._recent.append(vector)
        return _upload(frames, codes, now, origin)


def codes_of(features: list[NDArray[np.uint8]]) -> Codes:
    """Return codes (frames, rows, columns, channels) that fit the wire: pooled and cut where they are too
    many.
    """
    maps = [quantize_codes(_fit(f[..., :CHANNELS])) for f in features if f.shape == features[0].shape]
    most = max(1, MAX_CODES // maps[0].size)
    return np.stack(maps[-min(most, WIRE.segment_frames) :])


def _fit(features: NDArray[np.uint8]) -> NDArray[np.uint8]:
    rows, columns, channels = features.shape
    while rows > WIRE.segment_side or columns > WIRE.segment_side or rows * columns * channels > MAX_CODES:
        even = features[: rows // 2 * 2, : columns // 2 * 2].reshape(rows // 2, 2, columns // 2, 2, channels)
        features = even.mean(axis=(1, 3)).astype(np.uint8)
        rows, columns, channels = features.shape
    return features


def _upload(frames: list[HardFrame], codes: Codes, now: float, origin: Origin) -> SegmentUpload:
    scores = np.clip([frame.score for frame in frames], -SCORE_BOUND, SCORE_BOUND)
    count, rows, columns, channels = codes.shape
    return SegmentUpload(
        segment_id=uuid.uuid4().hex,
        embedding_id=origin.embedding_id,
        model_version=origin.model_version,
        pseudonym=origin.pseudonym,
        hour=hour_of(now),
        tags=origin.tags,
        frames=count,
        height=rows,
        width=columns,
        channels=channels,
        codes=pack_codes(without_places(codes)),
        score_mean=float(scores.mean()),
        score_max=float(scores.max()),
        motion=float(np.mean([frame.motion for frame in frames])),
    )
