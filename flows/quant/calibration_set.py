"""Frames of a calibration set (`edgeloop corpus calibration`) as batches for calibration and AdaRound.

Only a set that is what its report says is used: every file has the hash of the report, and every coverage rule is kept.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from flows.data.calibration.coverage import RUN
from flows.data.clips import Frames, decode
from flows.data.errors import DataError

MAX_REPORT_BYTES = 1 << 20
RUNS_A_FILE = 2


class CalibrationSetError(DataError):
    """The folder holds no calibration set, another one than its report says, or one with holes."""


@dataclass(frozen=True)
class CalibrationFrames:
    """Runs of consecutive received frames, each [5, h, w, 3], under every chain, and what identifies the set."""

    runs: tuple[Frames, ...]
    digest: str
    frames_in_set: int

    def batches(self) -> list[Tensor]:
        """Float batches [5, 3, h, w] in 0..1, one a run."""
        return [torch.from_numpy(run).permute(0, 3, 1, 2).to(torch.float32).div_(255.0) for run in self.runs]

    def facts(self) -> dict[str, object]:
        """What a report says of them; no name of a person, file or place."""
        return {"sha256": self.digest, "frames_in_set": self.frames_in_set, "frames_used": RUN * len(self.runs)}


def read_set(folder: Path, runs_a_file: int = RUNS_A_FILE) -> CalibrationFrames:
    """The first runs of every file. Raises CalibrationSetError."""
    report, text = _report(folder)
    if report.get("ok") is not True:
        missed = ", ".join(str(rule["name"]) for rule in _rules(report, folder) if rule.get("ok") is not True)
        raise CalibrationSetError(
            f"{folder}: the set misses its rules ({missed or 'none is told'}); make it again with more frames or videos"
        )
    files = report.get("sha256")
    if not isinstance(files, dict) or not files:
        raise CalibrationSetError(f"{folder / 'report.json'} names no file; make the set again")
    runs: list[Frames] = []
    for name, digest in sorted(files.items()):
        runs += _runs(folder, str(name), str(digest), runs_a_file)
    counted = [rule.get("have") for rule in _rules(report, folder) if rule.get("name") == "frames"]
    frames = int(counted[0]) if counted and isinstance(counted[0], int | float) else 0
    return CalibrationFrames(tuple(runs), hashlib.sha256(text).hexdigest(), frames)


def _report(folder: Path) -> tuple[dict[str, object], bytes]:
    path = folder / "report.json"
    if not path.is_file():
        raise CalibrationSetError(
            f"{folder} has no report.json; make a set with `edgeloop corpus calibration {folder}`"
        )
    if path.stat().st_size > MAX_REPORT_BYTES:
        raise CalibrationSetError(f"{path} has over {MAX_REPORT_BYTES >> 20} MiB; make the set again")
    text = path.read_bytes()
    try:
        report = json.loads(text)
    except ValueError as error:
        raise CalibrationSetError(f"{path} is not JSON ({error}); make the set again") from error
    if not isinstance(report, dict):
        raise CalibrationSetError(f"{path} is not a report; make the set again")
    return report, text


def _rules(report: dict[str, object], folder: Path) -> list[dict[str, object]]:
    rules = report.get("rules")
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise CalibrationSetError(f"{folder / 'report.json'} has no rules; make the set again")
    return rules


def _runs(folder: Path, name: str, digest: str, count: int) -> list[Frames]:
    path = folder / name
    if Path(name).name != name or not path.is_file():
        raise CalibrationSetError(f"{folder}: {name!r} of the report is not there; make the set again")
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise CalibrationSetError(f"{path} was changed since the report was written; make the set again")
    frames = decode(path, stop=RUN * count)
    if len(frames) < RUN:
        raise CalibrationSetError(f"{path} has {len(frames)} frames, a run needs {RUN}; make the set again")
    return [np.ascontiguousarray(frames[at : at + RUN]) for at in range(0, len(frames) - RUN + 1, RUN)]
