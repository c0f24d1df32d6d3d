"""What is compared: for every key a sample, whatever kind of file it came from.

A profile table (``profile_baseline.csv``) has one key for each program, profile and array model. A measured trace has
one key, and its latency is a 99th percentile. A bench's JSON has one key for each figure that stands for time on the
device, for DDR traffic, or for a promise.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from compiler.errors import CompileError
from compiler.measures.baseline import TOTAL
from compiler.perf.trace import Trace, looks_like_trace, read_trace

_NEEDED = ("target", "program", "profile", "array_model", "kernel", "microseconds", "ddr_bytes", "sram_peak")
MEASURED = "measured"


class Source(StrEnum):
    """What kind of file a table came from; only like is compared with like."""

    PROFILE = "profile table"
    TRACE = "measured trace"
    FIGURES = "bench figures"


class Key(NamedTuple):
    """What a sample is about. ``array_model`` is ``measured`` for a device's own time."""

    target: str
    program: str
    profile: str
    array_model: str

    def __str__(self) -> str:
        """As people write it."""
        return f"{self.target}/{self.program} {self.profile} {self.array_model}".replace("/ ", " ").strip()


@dataclass(frozen=True)
class KernelSample:
    """One kernel: microseconds (P99 where measured), bytes a frame, one past the highest SRAM byte; None: not known."""

    latency_us: float | None = None
    ddr_bytes: float | None = None
    sram_bytes: float | None = None


@dataclass(frozen=True)
class Sample:
    """One frame of one key, and its kernels. ``promise``: a bench's own verdict; ``by_estimate``: the frame is
    measured, the kernels are not.
    """

    latency_us: float | None = None
    ddr_bytes: float | None = None
    sram_bytes: float | None = None
    promise: bool | None = None
    by_estimate: bool = False
    kernels: Mapping[str, KernelSample] = field(default_factory=dict)


@dataclass(frozen=True)
class Tables:
    """All samples of one file; ``name`` is how errors call it."""

    name: str
    source: Source
    samples: Mapping[Key, Sample]


def read(name: str, data: bytes) -> Tables:
    """Any of the three kinds, recognised by its content; raises CompileError."""
    if looks_like_trace(data):
        key = Key("", "", "trace", MEASURED)
        return Tables(name, Source.TRACE, {key: _measured(read_trace(name, data))})
    if data.lstrip()[:1] == b"{":
        return Tables(name, Source.FIGURES, _figures(name, data))
    return Tables(name, Source.PROFILE, _profiles(name, data))


def with_trace(tables: Tables, trace: Trace, only: str | None = None) -> Tables:
    """Put a device's own time in the place of the estimate of one program and profile.

    ``only``: ``target/program/profile``; needed where the table has several. Raises CompileError.
    """
    known = {key[:3] for key in tables.samples}
    named = {"/".join(parts): parts for parts in known}
    if only is None and len(known) != 1:
        reason = f"{len(known)} programs and profiles, and the trace does not say which it measured"
        raise CompileError(tables.name, reason, f"give --measures, one of {', '.join(sorted(named))}")
    if only is not None and only not in named:
        raise CompileError("--measures", f"{only} is not in {tables.name}", f"give one of {', '.join(sorted(named))}")
    about = named[only] if only is not None else next(iter(known))
    samples = {key: _without_time(sample) if key[:3] == about else sample for key, sample in tables.samples.items()}
    last = [sample for key, sample in tables.samples.items() if key[:3] == about][-1]
    estimated = {name: KernelSample(latency_us=kernel.latency_us) for name, kernel in last.kernels.items()}
    samples[Key(*about, MEASURED)] = _measured(trace, estimated)
    return replace(tables, samples=samples)


def _without_time(sample: Sample) -> Sample:
    kernels = {name: replace(kernel, latency_us=None) for name, kernel in sample.kernels.items()}
    return replace(sample, latency_us=None, kernels=kernels)


def _measured(trace: Trace, estimated: Mapping[str, KernelSample] | None = None) -> Sample:
    """``estimated``: what the estimate says of the kernels, for a trace that only knows whole frames."""
    kernels = {name: KernelSample(latency_us=value) for name, value in trace.kernels_p99_us.items()}
    guessed = not kernels and bool(estimated)
    return Sample(trace.frame_p99_us, by_estimate=guessed, kernels=estimated if guessed and estimated else kernels)


def _profiles(name: str, data: bytes) -> Mapping[Key, Sample]:
    kernels: dict[Key, dict[str, KernelSample]] = {}
    totals: dict[Key, KernelSample] = {}
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8")), strict=True)
        lacking = [column for column in _NEEDED if column not in (reader.fieldnames or ())]
        if lacking:
            raise ValueError(f"column {lacking[0]} is missing")
        for row in reader:
            key = Key(row["target"], row["program"], row["profile"], row["array_model"])
            peak = float(row["sram_peak"]) if row["sram_peak"] else None
            sample = KernelSample(_number(row["microseconds"]), _number(row["ddr_bytes"]), peak)
            if row["kernel"] == TOTAL:
                totals[key] = sample
            else:
                kernels.setdefault(key, {})[row["kernel"]] = sample
    except (ValueError, TypeError, KeyError, csv.Error) as error:
        raise CompileError(name, f"not a profile table ({error})", "give a bundle or a profile_baseline.csv") from error
    if not totals or set(kernels) - set(totals):
        raise CompileError(name, "a total row is missing", "give a whole profile_baseline.csv")
    return {
        key: Sample(total.latency_us, total.ddr_bytes, total.sram_bytes, kernels=kernels.get(key, {}))
        for key, total in totals.items()
    }


def _number(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(f"{text} is no amount")
    return value


_HOST = re.compile(r"(^|[._])(host|wall|cpu|floor|vela|ablation)([._]|$)")
_TO_US = {"us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6}
_TO_BYTES = {"B": 1.0, "KB": 1e3, "MB": 1e6, "KiB": 2.0**10, "MiB": 2.0**20}


def _figures(name: str, data: bytes) -> Mapping[Key, Sample]:
    """Device time (not that of the host or of a rival), DDR traffic, and every promise."""
    samples: dict[Key, Sample] = {}
    try:
        for figure in json.loads(data)["figures"]:
            samples[Key("", "", str(figure["id"]), "")] = _figure(str(figure["id"]), figure)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CompileError(
            name, f"not the JSON of a bench ({error!r})", "give what edgeloop bench --json prints"
        ) from error
    if not samples:
        raise CompileError(name, "no figure in it", "give what edgeloop bench --json prints")
    return samples


def _figure(identifier: str, figure: Mapping[str, object]) -> Sample:
    promise, value = bool(figure["ok"]), figure["value"]
    unit = re.split(r"[ ,]", str(figure["unit"]), maxsplit=1)[0]
    if isinstance(value, bool) or not isinstance(value, int | float) or _HOST.search(identifier):
        return Sample(promise=promise)
    if unit in _TO_US:
        return Sample(latency_us=value * _TO_US[unit], promise=promise)
    if unit in _TO_BYTES and "ddr" in identifier:
        return Sample(ddr_bytes=value * _TO_BYTES[unit], promise=promise)
    return Sample(promise=promise)
