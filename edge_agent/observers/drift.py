"""Drift: moments of the embedding over a day, reported once the day is over.

Statistics of two embeddings are never mixed: a new observer closes the report of the old one. A day with
too few frames or of a single call is not reported, because a report of a handful of frames would almost be
the frames, and that of one call would describe one room. A pause without frames begins another session; a
restart alone does not. The running day can be saved and loaded, so that a restart does not lose it.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contracts.clock import day_of
from contracts.device import DeviceTags
from contracts.statistics import DriftReport, Moments, ObserverParameters, ReportError, encode_report
from contracts.statistics.drf1 import report_from
from edge_agent.enrol import Identity

ARRAYS = ("mean", "squares", "projected_mean", "projected_squares", "histogram")


@dataclass
class Day:
    """The day being watched."""

    number: int
    embedding_id: str
    moments: Moments
    sessions: int = 1
    scores: float = 0.0
    segments: int = 0
    seen_at: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """What a day needs before it may be reported. `pause_s`: simulated seconds without a frame that end a session."""

    frames: int = 300
    sessions: int = 2
    pause_s: float = 900.0


class DriftObserver:
    """Accumulates one day at a time."""

    def __init__(self, identity: Identity, tags: DeviceTags, evidence: Evidence) -> None:
        self._identity, self._tags, self._evidence = identity, tags, evidence
        self._day: Day | None = None
        self.too_few = 0
        self.one_session = 0
        self.refused = 0

    @property
    def frames(self) -> int:
        """Frames of the running day."""
        return self._day.moments.count if self._day else 0

    def observe(
        self, embedding: NDArray[np.float32], score: float, observer: ObserverParameters, now: float
    ) -> bytes | None:
        """Take a frame; return the encoded report of the day before when a new day begins."""
        report = self.roll(observer.embedding_id, now)
        if self._day is None:
            self._day = Day(day_of(now), observer.embedding_id, Moments(), seen_at=now)
        if now - self._day.seen_at > self._evidence.pause_s:
            self._day.sessions += 1
        self._day.seen_at = max(self._day.seen_at, now)
        z, clipped = observer.standardize(embedding)
        self._day.moments.add(z, *observer.project(z), clipped)
        self._day.scores += score
        return report

    def roll(self, embedding_id: str, now: float) -> bytes | None:
        """Close the day when it is over or when another embedding takes over."""
        day = self._day
        if day is None or (day.number == day_of(now) and day.embedding_id == embedding_id):
            return None
        self._day = None
        return self._report(day)

    def count_segment(self) -> None:
        """A hard segment was taken today."""
        if self._day is not None:
            self._day.segments += 1

    def save(self) -> bytes:
        """Return the running day as bytes; empty when nothing was seen."""
        day = self._day
        if day is None:
            return b""
        buffer = io.BytesIO()
        moments = {name: getattr(day.moments, name) for name in ARRAYS}
        counts = np.array([day.number, day.moments.count, day.moments.clipped, day.sessions, day.segments])
        name = np.frombuffer(day.embedding_id.encode("ascii"), np.uint8)
        np.savez(buffer, counts=counts, scores=np.array([day.scores, day.seen_at]), embedding_id=name, **moments)
        return buffer.getvalue()

    def load(self, data: bytes) -> None:
        """Go on with a saved day. Damaged bytes are ignored: a day is lost, not the device."""
        if not data:
            return
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as saved:
                number, count, clipped, sessions, segments = (int(v) for v in saved["counts"])
                moments = Moments(count, clipped, *(saved[name] for name in ARRAYS))
                name = saved["embedding_id"].tobytes().decode("ascii")
                scores, seen_at = (float(value) for value in saved["scores"])
                self._day = Day(number, name, moments, sessions, scores, segments, seen_at)
        except Exception:  # an archive damaged by a power cut fails in many ways
            self._day = None

    def _report(self, day: Day) -> bytes | None:
        if day.moments.count < self._evidence.frames:
            self.too_few += 1
            return None
        if day.sessions < self._evidence.sessions:
            self.one_session += 1
            return None
        try:
            return encode_report(self._filled(day), self._identity.report_key)
        except ReportError:
            self.refused += 1
            return None

    def _filled(self, day: Day) -> DriftReport:
        return report_from(
            day.moments,
            pseudonym=self._identity.pseudonym(day.number, day.embedding_id),
            embedding_id=day.embedding_id,
            day=day.number,
            sessions=day.sessions,
            score_mean=day.scores / day.moments.count,
            hard_segments=day.segments,
            tags=self._tags,
        )
