"""Figures of the demo: every promise of the first turn, measured from outside.

Quality is measured on held-out recordings, INT8 outputs come from the emulated NPU through the lab.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psycopg
from torch import nn

from contracts.lab import LabClient
from demo.actors import GROUPS
from demo.observe import Json
from demo.scene import HARD, NORMAL, Recording
from demo.story import Picture, QualityRow
from edgeloop.figures import Figure, at_least, at_most, below, exactly
from flows.data.clips import Frames
from flows.tasks.vsr.metrics import as_upscaler, psnr_rgb, psnr_y

TARGETS = ("npu-4t", "npu-2t")
SAMPLED = 12


@dataclass(frozen=True)
class Quality:
    """Mean PSNR by condition for interpolation, old and new model, and how much INT8 loses against FP32."""

    rows: tuple[QualityRow, ...]
    pictures: tuple[Picture, ...]
    int8_drop_db: float

    def gain(self, condition: str) -> float:
        """New minus old, dB, mean over held-out recordings of a condition."""
        rows = [row for row in self.rows if row.condition == condition]
        return float(np.mean([row.new - row.old for row in rows]))


def measure_quality(recordings: Sequence[Recording], old: Path, new: Path, float_net: nn.Module) -> Quality:
    """Run both bundles on the emulated NPU over sampled frames of every recording."""
    chosen = _one_a_clip(recordings)
    outputs = {name: _run(bundle, chosen) for name, bundle in (("old", old), ("new", new))}
    upscale = as_upscaler(float_net)
    rows, pictures, drops = [], [], []
    for index, recording in enumerate(chosen):
        low, high = _sample(recording.low), _sample(recording.high)
        before, after = outputs["old"][index], outputs["new"][index]
        plain = low.repeat(2, axis=1).repeat(2, axis=2)
        values = [float(psnr_y(image, high).mean()) for image in (plain, before, after)]
        rows.append(QualityRow(recording.clip, recording.condition, *values))
        drops.append(float(psnr_rgb(upscale(low), high).mean() - psnr_rgb(after, high).mean()))
        if recording.condition == HARD:
            pictures.append(_picture(recording, plain, before, after, high))
    return Quality(tuple(rows), tuple(pictures), max(drops))


def quality_figures(quality: Quality) -> list[Figure]:
    """PSNR gains and the INT8 drop."""
    return [
        at_least("quality.hard.gain", quality.gain(HARD), "dB", 0.3),
        at_least("quality.normal.gain", quality.gain(NORMAL), "dB", -0.05),
        below("quality.int8_drop", quality.int8_drop_db, "dB", 0.15),
    ]


def size_figures(database_url: str) -> list[Figure]:
    """Largest message of each kind that the platform stored."""
    url = database_url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(url) as connection:
        segment, report = (
            int((connection.execute(query).fetchone() or (0,))[0] or 0)
            for query in (
                "select max(octet_length(body)) from telemetry.segments",
                "select max(octet_length(body)) from telemetry.reports",
            )
        )
    return [
        below("upload.segment_bytes", segment, "B", 50_000),
        below("upload.report_bytes", report, "B", 2_048),
        exactly("upload.pixel_fields", _pixel_fields(), "", 0),
    ]


def drift_figures(series: Sequence[Json], alarms: Sequence[Json]) -> list[Figure]:
    """Alarm on every changed cohort, none on the unchanged."""
    del series
    alarmed = {cohort for alarm in alarms for cohort in alarm["cohorts"]}
    changed = {group.cohort for group in GROUPS if group.changes}
    unchanged = {group.cohort for group in GROUPS if not group.changes}
    return [
        exactly("drift.alarm.changed", changed <= alarmed, "", wanted=True),
        exactly("drift.alarm.unchanged", bool(unchanged & alarmed), "", wanted=False),
    ]


def fleet_figures(devices: int, on_new: int, unverified: int) -> list[Figure]:
    """Everybody on the new bundle, nobody ever ran an unverified byte."""
    return [
        Figure("fleet.on_new_bundle", on_new, "devices", f"all {devices}", on_new == devices),
        exactly("fleet.unverified_bytes_run", unverified, "B", 0),
    ]


def act_two_figures(blocked: bool, rolled_back: bool) -> list[Figure]:
    """Both bad candidates were stopped, each where it had to be."""
    return [
        exactly("act2.broken_candidate_blocked_by_gate", blocked, "", wanted=True),
        exactly("act2.misbehaving_candidate_rolled_back", rolled_back, "", wanted=True),
    ]


def coverage_figures(before: float, after: float) -> list[Figure]:
    """Coverage of hard clusters by the training set."""
    return [
        Figure("coverage.before", round(before, 4), "share", "printed", True),
        at_least("coverage.after", round(after, 4), "share", 0.95),
    ]


def time_figures(seconds: float, limit: float, people: int) -> list[Figure]:
    """Wall time and people's actions."""
    return [
        at_most("demo.wall_minutes", round(seconds / 60, 2), "min", limit / 60),
        exactly("demo.people_actions", people, "", 0),
    ]


def _pixel_fields() -> int:
    from contracts.wire import SegmentUpload

    words = ("pixel", "image", "rgb", "yuv", "thumbnail", "jpeg", "png")
    return sum(any(word in name for word in words) for name in SegmentUpload.model_fields)


def _run(bundle: Path, recordings: Sequence[Recording]) -> list[Frames]:
    with LabClient([sys.executable, "-m", "edge_agent.lab", "--device-class", TARGETS[0]]) as lab:
        lab.load(bundle)
        return [next(iter(lab.run("model", _sample(r.low)).outputs.values())) for r in recordings]


def _sample(frames: Frames) -> Frames:
    step = max(1, len(frames) // SAMPLED)
    return np.ascontiguousarray(frames[::step][:SAMPLED])


def _one_a_clip(recordings: Sequence[Recording]) -> list[Recording]:
    """Two draws of every clip and condition: enough to judge, quick enough to run."""
    seen: dict[tuple[str, str], int] = {}
    chosen = []
    for recording in recordings:
        key = (recording.clip, recording.condition)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= 2:
            chosen.append(recording)
    return chosen


def _picture(recording: Recording, plain: Frames, before: Frames, after: Frames, truth: Frames) -> Picture:
    frame = len(truth) // 2
    height, width = truth.shape[1:3]
    rows, columns = min(height, 128), min(width, 160)
    top, left = (height - rows) // 2, (width - columns) // 2

    def cut(frames: Frames) -> Frames:
        crop = frames[frame, top : top + rows, left : left + columns].astype(np.float32)
        return np.asarray(np.clip(crop / max(recording.degradation.gain, 0.2), 0, 255), dtype=np.uint8)

    images = (
        ("received, enlarged", cut(plain)),
        ("old model", cut(before)),
        ("new model", cut(after)),
        ("truth", cut(truth)),
    )
    return Picture(f"{recording.clip}, low light and bad network (brightened for the eye)", images)
