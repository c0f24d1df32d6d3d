"""Compare two profiles (``profile_baseline.csv``): did the new program get slower, hungrier, or too big?

Pure: bytes in, regressions out. Rules: latency of a frame at most +5 %, DDR traffic at most +10 %, SRAM peak
within the target, nothing that the baseline has may vanish. Each regression names the kernel that grew the
most.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.errors import CompileError
from compiler.pieces import BASELINE_COLUMNS
from contracts.npu import UnknownTarget, load_spec

Key = tuple[str, str, str, str]  # target, program, profile, array model


@dataclass(frozen=True)
class PerfLimits:
    """Growth allowed, in percent of the baseline."""

    latency_percent: float = 5.0
    ddr_percent: float = 10.0


@dataclass(frozen=True)
class Regression:
    """One broken rule; ``kernel`` is the one that grew the most, empty where none did."""

    target: str
    program: str
    profile: str
    array_model: str
    measure: str
    baseline: float
    current: float
    limit: float
    kernel: str

    def __str__(self) -> str:
        where = f"{self.target}/{self.program} {self.profile} {self.array_model}"
        culprit = f", most in kernel {self.kernel}" if self.kernel else ""
        return f"{where}: {self.measure} {self.baseline:g} -> {self.current:g}, limit {self.limit:g}{culprit}"


@dataclass
class _Table:
    total: dict[str, float] = field(default_factory=dict)
    kernels: dict[str, dict[str, float]] = field(default_factory=dict)


def compare(current: bytes, baseline: bytes, limits: PerfLimits | None = None) -> list[Regression]:
    """All regressions of ``current`` against ``baseline``; raises CompileError when a table is not readable."""
    limits = limits or PerfLimits()
    new, old = _read("current", current), _read("baseline", baseline)
    found: list[Regression] = []
    for key, before in old.items():
        if key not in new:
            found.append(Regression(*key, "missing", 1, 0, 1, ""))
            continue
        found += _compare(key, new[key], before, limits)
    for key, now in new.items():
        found += _budget(key, now)
    return found


def _compare(key: Key, now: _Table, before: _Table, limits: PerfLimits) -> list[Regression]:
    found = []
    for measure, percent in (("microseconds", limits.latency_percent), ("ddr_bytes", limits.ddr_percent)):
        limit = before.total[measure] * (1 + percent / 100)
        if now.total[measure] > limit:
            culprit = _culprit(now, before, measure)
            found.append(Regression(*key, measure, before.total[measure], now.total[measure], limit, culprit))
    return found


def _budget(key: Key, now: _Table) -> list[Regression]:
    try:
        budget = load_spec(key[0]).sram_bytes
    except UnknownTarget as error:
        raise CompileError("current", str(error), "give a profile of a known target") from error
    peak = now.total["sram_peak"]
    return [Regression(*key, "sram_peak", budget, peak, budget, "")] if peak > budget else []


def _culprit(now: _Table, before: _Table, measure: str) -> str:
    growth = {name: row[measure] - before.kernels.get(name, {}).get(measure, 0.0) for name, row in now.kernels.items()}
    worst = max(growth, key=lambda name: growth[name], default="")
    return worst if worst and growth[worst] > 0 else ""


def _read(name: str, data: bytes) -> Mapping[Key, _Table]:
    tables: dict[Key, _Table] = {}
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8")), strict=True)
        if tuple(reader.fieldnames or ()) != BASELINE_COLUMNS:
            raise ValueError(f"columns {reader.fieldnames}")
        for row in reader:
            key = (row["target"], row["program"], row["profile"], row["array_model"])
            numbers = {measure: float(row[measure]) for measure in ("microseconds", "ddr_bytes")}
            table = tables.setdefault(key, _Table())
            if row["kernel"] == "total":
                table.total = {**numbers, "sram_peak": float(row["sram_peak"])}
            else:
                table.kernels[row["kernel"]] = numbers
    except (ValueError, TypeError, KeyError, csv.Error) as error:
        raise CompileError(name, f"not a profile table ({error})", "give a bundle or a profile_baseline.csv") from error
    broken = next((key for key, table in tables.items() if not table.total), None)
    if broken or not tables:
        raise CompileError(name, "a total row is missing", "give a whole profile_baseline.csv")
    return tables
