"""The rules of ``compare-perf``, in order, and what they found.

A frame may take 5 % longer and move 10 % more bytes than the baseline's; its SRAM stays within the budget, the target's
own memory unless another is given. What only one side has is an error too: a profile that vanished, and a profile that
no baseline row judges (unless new ones are allowed). Kernels that appear or vanish are told and counted in the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from compiler.errors import CompileError
from compiler.perf.tables import KernelSample, Key, Sample, Source, Tables, read
from contracts.npu import UnknownTarget, load_spec


@dataclass(frozen=True)
class PerfLimits:
    """Growth allowed in percent of the baseline; SRAM budget in bytes (None: the target's memory).

    ``per_kernel``: every kernel has to keep the percentages, not only the frame. ``allow_new``: what the baseline does
    not know passes.
    """

    latency_percent: float = 5.0
    ddr_percent: float = 10.0
    sram_bytes: int | None = None
    per_kernel: bool = False
    allow_new: bool = False


@dataclass(frozen=True)
class Regression:
    """One broken rule; ``kernel`` is the one that did it, empty where none grew."""

    target: str
    program: str
    profile: str
    array_model: str
    measure: str
    baseline: float | None
    current: float | None
    limit: float | None
    kernel: str
    kernel_growth: float | None
    detail: str

    def __str__(self) -> str:
        where = Key(self.target, self.program, self.profile, self.array_model)
        culprit = f"; {self.kernel} grew most ({self.kernel_growth:+,.6g})" if self.kernel_growth else ""
        return f"{where}: {self.detail}{culprit}"


@dataclass(frozen=True)
class Row:
    """One measure on both sides; ``kernel`` is empty for the frame."""

    key: Key
    kernel: str
    measure: str
    baseline: float | None
    current: float | None

    @property
    def growth_percent(self) -> float | None:
        """Growth over the baseline; None where there is none."""
        if not self.baseline or self.current is None:
            return None
        return (self.current / self.baseline - 1) * 100


@dataclass(frozen=True)
class Comparison:
    """Regressions decide; rows and notes explain."""

    regressions: tuple[Regression, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing regressed."""
        return not self.regressions


def compare(current: bytes, baseline: bytes, limits: PerfLimits | None = None) -> Comparison:
    """Compare two files of one kind; raises CompileError when one is not readable."""
    return judge(read("current", current), read("baseline", baseline), limits or PerfLimits())


def judge(current: Tables, baseline: Tables, limits: PerfLimits) -> Comparison:
    """All regressions of ``current``; raises CompileError when the two are not of one kind."""
    if current.source != baseline.source:
        reason = f"a {current.source.value}, and {baseline.name} is a {baseline.source.value}"
        raise CompileError(current.name, reason, "compare like with like")
    _check_targets(current)
    found = (regression for rule in _RULES for regression in rule(current, baseline, limits))
    return Comparison(tuple(_once(found)), tuple(_rows(current, baseline)), tuple(_notes(current, baseline)))


def _once(found: Iterable[Regression]) -> Iterator[Regression]:
    """Traffic and memory are the same under every array model: told once."""
    seen: set[tuple[str, ...]] = set()
    for entry in found:
        fact = (entry.target, entry.program, entry.profile, entry.measure, entry.detail)
        if fact not in seen:
            seen.add(fact)
            yield entry


@dataclass(frozen=True)
class _Measure:
    field: str
    name: str
    unit: str
    percent: str


_MEASURES = (
    _Measure("latency_us", "latency_p99_us", "µs", "latency_percent"),
    _Measure("ddr_bytes", "ddr_bytes", "bytes of DDR", "ddr_percent"),
)


def _vanished(current: Tables, baseline: Tables, _: PerfLimits) -> Iterator[Regression]:
    for key in baseline.samples:
        if key not in current.samples:
            yield _one_sided(key, "missing", f"the baseline has it, {current.name} does not")


def _unjudged(current: Tables, baseline: Tables, limits: PerfLimits) -> Iterator[Regression]:
    for key in current.samples:
        if key not in baseline.samples and not limits.allow_new:
            yield _one_sided(key, "no baseline", f"no row of {baseline.name} to judge it by")


def _one_sided(key: Key, measure: str, detail: str) -> Regression:
    return Regression(*key, measure, None, None, None, "", None, detail)


def _grown(current: Tables, baseline: Tables, limits: PerfLimits) -> Iterator[Regression]:
    for key, before in baseline.samples.items():
        now = current.samples.get(key)
        if now is None:
            continue
        for measure in _MEASURES:
            yield from _growth(key, measure, now, before, limits)


def _growth(key: Key, measure: _Measure, now: Sample, before: Sample, limits: PerfLimits) -> Iterator[Regression]:
    old, new = getattr(before, measure.field), getattr(now, measure.field)
    percent = getattr(limits, measure.percent)
    if old is not None and new is None:
        yield _one_sided(key, "missing", f"the baseline has {measure.name}, current does not")
        return
    if old is None or new is None:
        return
    if new > old * (1 + percent / 100):
        kernel, more = _culprit(now, before, measure.field)
        found = _regression(key, measure, old, new, percent, "", kernel, more)
        note = "; the frame is measured, its kernels are estimated" if now.by_estimate and kernel else ""
        yield replace(found, detail=found.detail + note)
    if limits.per_kernel:
        for name, sample in now.kernels.items():
            was, is_now = getattr(before.kernels.get(name), measure.field, None), getattr(sample, measure.field)
            if was is not None and is_now is not None and is_now > was * (1 + percent / 100):
                yield _regression(key, measure, was, is_now, percent, name, name, is_now - was)


def _regression(
    key: Key, measure: _Measure, old: float, new: float, percent: float, about: str, kernel: str, more: float | None
) -> Regression:
    grown = f"+{(new / old - 1) * 100:.1f} %" if old else "from nothing"
    head = f"kernel {about}: " if about else ""
    detail = f"{head}{old:,.6g} -> {new:,.6g} {measure.unit}, {grown}, allowed +{percent:g} %"
    return Regression(*key, measure.name, old, new, old * (1 + percent / 100), kernel, more, detail)


def _over_budget(current: Tables, _: Tables, limits: PerfLimits) -> Iterator[Regression]:
    for key, now in current.samples.items():
        if now.sram_bytes is None:
            continue
        budget = limits.sram_bytes if limits.sram_bytes is not None else load_spec(key.target).sram_bytes
        if now.sram_bytes > budget:
            top = max(now.kernels, key=lambda name: now.kernels[name].sram_bytes or 0, default="")
            known = top and now.kernels[top].sram_bytes
            detail = f"SRAM peak {now.sram_bytes:,.0f} bytes, budget {budget:,}"
            detail += f"; kernel {top} reaches the highest byte" if known else ""
            yield Regression(*key, "sram_bytes", None, now.sram_bytes, budget, top if known else "", None, detail)


def _broken_promises(current: Tables, baseline: Tables, _: PerfLimits) -> Iterator[Regression]:
    for key, before in baseline.samples.items():
        now = current.samples.get(key)
        if now is not None and before.promise and now.promise is False:
            yield _one_sided(key, "promise", "the baseline keeps this promise, current does not")


Rule = Callable[[Tables, Tables, PerfLimits], Iterator[Regression]]
_RULES: tuple[Rule, ...] = (_vanished, _unjudged, _grown, _over_budget, _broken_promises)


def _culprit(now: Sample, before: Sample, field: str) -> tuple[str, float | None]:
    """The kernel that grew the most; a new kernel grew by all of itself."""
    growth = {
        name: _value(sample, field) - _value(before.kernels.get(name), field) for name, sample in now.kernels.items()
    }
    worst = max(growth, key=lambda name: growth[name], default="")
    return (worst, growth[worst]) if worst and growth[worst] > 0 else ("", None)


def _value(sample: KernelSample | None, field: str) -> float:
    return float(getattr(sample, field, None) or 0.0)


def _rows(current: Tables, baseline: Tables) -> Iterator[Row]:
    for key, now in current.samples.items():
        before = baseline.samples.get(key, Sample())
        names = ("", *dict.fromkeys((*before.kernels, *now.kernels)))
        for measure in (*_MEASURES, _Measure("sram_bytes", "sram_bytes", "", "")):
            for name in names:
                old = before if not name else before.kernels.get(name)
                new = now if not name else now.kernels.get(name)
                values = getattr(old, measure.field, None), getattr(new, measure.field, None)
                if values != (None, None):
                    yield Row(key, name, measure.name, *values)


def _notes(current: Tables, baseline: Tables) -> Iterator[str]:
    for key, now in current.samples.items():
        before = baseline.samples.get(key)
        if before is None:
            continue
        new, gone = set(now.kernels) - set(before.kernels), set(before.kernels) - set(now.kernels)
        if new:
            yield f"{key}: new kernels {', '.join(sorted(new))}"
        if gone:
            yield f"{key}: kernels no longer there {', '.join(sorted(gone))}"


def _check_targets(tables: Tables) -> None:
    if tables.source != Source.PROFILE:
        return
    for key in tables.samples:
        try:
            load_spec(key.target)
        except UnknownTarget as error:
            raise CompileError(tables.name, str(error), "give a profile of a known target") from error
