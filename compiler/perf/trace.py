"""A device's measured trace: microseconds of every kernel in every frame, and their 99th percentiles.

CSV with the columns ``kernel`` and ``microseconds``, and ``frame`` where a kernel has several rows in a frame (its
stripes, which are added up). JSON is a list of objects with the same fields. Without ``frame`` the n-th row of a
kernel belongs to the n-th frame. Rows of a kernel ``total`` are the frame's own time; without them it is the sum of its
kernels. The percentile is linear between ranks, as the gate computes it.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from compiler.errors import CompileError
from compiler.measures.baseline import TOTAL

_REMEDY = "give rows with kernel, microseconds and, for stripes, frame"


@dataclass(frozen=True)
class TraceLimits:
    """A percentile of fewer frames is only their maximum; more rows than this are no trace of a few minutes."""

    fewest_frames: int = 100
    most_rows: int = 5_000_000


LIMITS = TraceLimits()


@dataclass(frozen=True)
class Trace:
    """Percentiles of a trace."""

    frames: int
    frame_p99_us: float
    kernels_p99_us: Mapping[str, float]


def looks_like_trace(data: bytes) -> bool:
    """Whether the first line of a CSV, or the first object of a JSON list, is that of a trace."""
    head = data.lstrip()[:4096]
    if head[:1] == b"[":
        return b'"microseconds"' in head
    columns = head.split(b"\n", 1)[0].strip().split(b",")
    return {b"kernel", b"microseconds"} <= set(columns) and b"array_model" not in columns


def read_trace(name: str, data: bytes) -> Trace:
    """Percentiles of a trace's frames and kernels; raises CompileError."""
    try:
        rows = list(_rows(data))
    except (ValueError, TypeError, KeyError, csv.Error, RecursionError) as error:
        raise CompileError(name, f"not a measured trace ({error!r})", _REMEDY) from error
    if len(rows) > LIMITS.most_rows:
        raise CompileError(name, f"{len(rows)} rows", f"give at most {LIMITS.most_rows}")
    kernels = _by_frame(name, rows)
    totals = kernels.pop(TOTAL, None) or _sums(kernels)
    if len(totals) < LIMITS.fewest_frames:
        reason = f"{len(totals)} frames, their 99th percentile says nothing"
        raise CompileError(name, reason, f"measure at least {LIMITS.fewest_frames} frames")
    return Trace(len(totals), _p99(totals), {kernel: _p99(frames) for kernel, frames in kernels.items()})


def _rows(data: bytes) -> Iterable[tuple[str | None, str, float]]:
    text = data.decode("utf-8")
    found = json.loads(text) if text.lstrip()[:1] == "[" else csv.DictReader(io.StringIO(text), strict=True)
    for row in found:
        frame = row.get("frame")
        microseconds = float(row["microseconds"])
        if not 0 <= microseconds < float("inf"):
            raise ValueError(f"{microseconds} microseconds")
        yield None if frame is None else str(frame), str(row["kernel"]), microseconds


def _by_frame(name: str, rows: Iterable[tuple[str | None, str, float]]) -> dict[str, dict[str, float]]:
    """Microseconds by kernel and frame; stripes of a frame are added up."""
    seen: Counter[str] = Counter()
    kernels: dict[str, dict[str, float]] = {}
    numbered = False
    for frame, kernel, microseconds in rows:
        numbered |= frame is not None
        place = frame if frame is not None else str(seen[kernel])
        seen[kernel] += 1
        frames = kernels.setdefault(kernel, {})
        frames[place] = frames.get(place, 0.0) + microseconds
    counts = {kernel: len(frames) for kernel, frames in kernels.items()}
    if not numbered and len(set(counts.values())) > 1:
        reason = f"kernels have different numbers of rows ({counts}) and no frame column says which belong together"
        raise CompileError(name, reason, "add a frame column")
    return kernels


def _sums(kernels: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for frames in kernels.values():
        for frame, microseconds in frames.items():
            totals[frame] = totals.get(frame, 0.0) + microseconds
    return totals


def _p99(frames: Mapping[str, float]) -> float:
    return float(np.percentile(np.fromiter(frames.values(), np.float64), 99.0))
