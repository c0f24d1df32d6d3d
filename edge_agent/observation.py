"""Brings the observers together: one look of the quality net feeds score, hard segments and drift."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from contracts.clock import SECONDS_PER_DAY, day_of
from contracts.device import DeviceTags
from edge_agent.disk import Disk
from edge_agent.enrol import Identity
from edge_agent.held import HeldReports
from edge_agent.observers.drift import DriftObserver, Evidence
from edge_agent.observers.evidence import hardness
from edge_agent.observers.hard import HardFrame, HardMiner, HardSettings, Origin
from edge_agent.observers.health import Played
from edge_agent.observers.signs import signs_of
from edge_agent.outbox import Kind, Outbox
from edge_agent.picture import Pixels, motion_between
from edge_agent.playback import Playback
from edge_agent.sources import SourceFrame

log = logging.getLogger(__name__)
DAY_FILE = "day.npz"
DAY_BYTES = 256 * 1024


@dataclass(frozen=True)
class ObservationSettings:
    """What is reported, and when."""

    tags: DeviceTags
    evidence: Evidence = field(default_factory=Evidence)
    spread_s: float = 5 * 3_600.0
    """Simulated seconds after midnight over which a day's report may leave."""
    hard: HardSettings = field(default_factory=HardSettings)


class Observation:
    """The observers of one device and their way into the outbox."""

    def __init__(
        self, folder: Path, disk: Disk, identity: Identity, outbox: Outbox, settings: ObservationSettings
    ) -> None:
        self.tags = settings.tags
        self._path, self._disk = folder / DAY_FILE, disk
        self._identity, self._outbox = identity, outbox
        self._hard = HardMiner(settings.hard)
        self._drift = DriftObserver(identity, settings.tags, settings.evidence)
        self._held, self._spread = HeldReports(folder, disk), settings.spread_s
        self._before: Pixels | None = None
        self._failures = 0
        self.segments = 0
        self.reports = 0
        self._load()

    def see(self, playback: Playback, frame: SourceFrame, now: float) -> Played:
        """Observe one frame. A failure of the quality program costs the observation, not the frame."""
        try:
            seen = playback.observe(frame)
        except Exception as error:  # whatever a program does, the call goes on
            self._failed(error)
            return Played(errors=1)
        motion = motion_between(self._before, frame.pixels)
        self._before = frame.pixels
        observer = playback.observer
        score = observer.score(seen.embedding)
        self._report(self._drift.observe(seen.embedding, score, observer, now), observer.embedding_id, now)
        origin = Origin(
            observer.embedding_id,
            playback.version,
            self.tags,
            self._identity.pseudonym(day_of(now), observer.embedding_id),
        )
        judged = HardFrame(
            seen.features, hardness(score, observer.tau, frame.quantiser, signs_of(frame.pixels)), motion
        )
        segment = self._hard.observe(judged, observer.tau, now, origin)
        if segment is not None and self._outbox.put(Kind.SEGMENT, segment.model_dump_json().encode()):
            self.segments += 1
            self._drift.count_segment()
        return Played(score=score, errors=seen.errors, on_cpu=seen.on_cpu)

    def save(self) -> None:
        """Keep the running day for the next start."""
        data = self._drift.save()
        if not data:
            return
        try:
            self._disk.replace(self._path, data)
        except OSError as error:
            log.warning("the running day was not saved: %s", error)

    def status(self) -> dict[str, object]:
        """Counts for the status report."""
        return {
            "segments": self.segments,
            "reports": self.reports,
            "segments_suppressed": self._hard.suppressed,
            "segments_throttled": self._hard.throttled,
            "days_too_short": self._drift.too_few,
            "days_of_one_session": self._drift.one_session,
            "reports_held": len(self._held),
            "frames_today": self._drift.frames,
            "observe_failures": self._failures,
            "outbox": len(self._outbox),
            "outbox_dropped": dict(self._outbox.dropped),
        }

    def _report(self, report: bytes | None, embedding_id: str, now: float) -> None:
        """Hold a new report until its moment, and send what is due."""
        if report is not None:
            wait = self._spread * self._identity.delay(day_of(now), embedding_id)
            self._held.hold(report, day_of(now) * SECONDS_PER_DAY + wait)
        for due in self._held.take(now):
            self.reports += self._outbox.put(Kind.REPORT, due)

    def _failed(self, error: Exception) -> None:
        if self._failures == 0:
            log.exception("a frame was not observed")
        self._failures += 1

    def _load(self) -> None:
        try:
            self._drift.load(self._disk.read(self._path, DAY_BYTES))
            self._disk.remove(self._path)
        except OSError:
            return
