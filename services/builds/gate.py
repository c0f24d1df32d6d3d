"""The gate: an ordered list of small rules that a candidate must all pass before it may be released.

Each rule is a pure function of the candidate, of production (None for the first build ever) and of the limits, and
yields one `GateCheck` for everything that it looked at, good or bad: the list of checks is the evidence. A rule whose
docstring starts with "Against production" yields nothing when there is no production or nothing comparable in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from contracts.wire import GateCheck, GateVerdict
from services.builds.limits import GATE, GateLimits
from services.builds.measurements import Candidate, Measurement

Rule = Callable[[Candidate, Candidate | None, GateLimits], Iterator[GateCheck]]

NOT_WORD = re.compile(r"[^a-zA-Z0-9._-]+")


def judge(
    candidate: Candidate, production: Candidate | None, limits: GateLimits = GATE, rules: Iterable[Rule] | None = None
) -> GateVerdict:
    """Run the rules in order; passed only when every check is ok and quality was measured at all."""
    checks = tuple(check for rule in (rules or RULES) for check in rule(candidate, production, limits))
    reasons = tuple(f"{check.id}: {check.detail}" for check in checks if not check.ok)
    return GateVerdict(passed=not reasons, checks=checks, reasons=reasons)


def evidence_present(candidate: Candidate, _production: Candidate | None, _limits: GateLimits) -> Iterator[GateCheck]:
    """A normal evaluation set was played on every device class: no evidence never passes."""
    for target in sorted(candidate.sram_limits):
        played = sum(row.frames for row in _model_rows(candidate) if row.target == target and row.condition == "normal")
        detail = "" if played else f"no frame of a set with condition 'normal' ran on {target}; upload one and name it"
        yield _check("evidence.normal", target, float(played), 1.0, "frames", played >= 1, detail)


def bundle_size(candidate: Candidate, _production: Candidate | None, limits: GateLimits) -> Iterator[GateCheck]:
    """The bundle stays under the size that devices keep two slots for."""
    size = candidate.size_bytes
    ok = size < limits.size_bytes
    detail = "" if ok else f"the bundle has {size:,} bytes, allowed are fewer than {limits.size_bytes:,}"
    yield _check("size.bundle", "", float(size), float(limits.size_bytes), "bytes", ok, detail)


def sram_peak(candidate: Candidate, _production: Candidate | None, _limits: GateLimits) -> Iterator[GateCheck]:
    """The peak use of on-chip memory fits the target."""
    for row in candidate.measurements:
        limit = candidate.sram_limits.get(row.target)
        if limit is None:
            continue
        ok = row.sram_peak <= limit
        detail = "" if ok else f"{row.program} needs {row.sram_peak:,} bytes of SRAM on {row.target}, it has {limit:,}"
        yield _check(f"sram.{row.program}", _where(candidate, row), row.sram_peak, limit, "bytes", ok, detail)


def decoding(candidate: Candidate, _production: Candidate | None, limits: GateLimits) -> Iterator[GateCheck]:
    """Where constants are coded, decoding them holds up a load only shortly; the check also says what that saves."""
    for load in candidate.loads:
        ok = load.decode_ms <= limits.decode_ms
        said = "" if ok else f"; allowed are {limits.decode_ms:g} ms, build it with entropy auto or off"
        check = f"load.decode.{load.program}"
        yield _check(check, load.target, load.decode_ms, limits.decode_ms, "ms", ok, f"{load.note}{said}")


def latency(candidate: Candidate, production: Candidate | None, limits: GateLimits) -> Iterator[GateCheck]:
    """Against production: P99 of the simulated latency, per program, profile and device class."""
    for ours, theirs in _pairs(candidate, production):
        limit = theirs.latency_p99_ms * (1.0 + limits.latency_p99_share)
        value = ours.latency_p99_ms
        ok = value <= limit * (1.0 + limits.tie_share)
        detail = "" if ok else f"P99 {value:.3f} ms, production {theirs.latency_p99_ms:.3f} ms, limit {limit:.3f} ms"
        yield _check(f"latency.p99.{ours.program}", _where(candidate, ours), value, limit, "ms", ok, detail)


def ddr_traffic(candidate: Candidate, production: Candidate | None, limits: GateLimits) -> Iterator[GateCheck]:
    """Against production: bytes moved over DDR a frame."""
    for ours, theirs in _pairs(candidate, production):
        limit = theirs.ddr_bytes * (1.0 + limits.ddr_share)
        ok = ours.ddr_bytes <= limit * (1.0 + limits.tie_share)
        detail = "" if ok else f"{ours.ddr_bytes:,} bytes a frame, production {theirs.ddr_bytes:,}, limit {limit:,.0f}"
        yield _check(f"ddr.{ours.program}", _where(candidate, ours), ours.ddr_bytes, limit, "bytes", ok, detail)


def quality(candidate: Candidate, production: Candidate | None, limits: GateLimits) -> Iterator[GateCheck]:
    """Against production: PSNR of the INT8 output on the device, on normal and on hard sets."""
    for ours, theirs in _pairs(candidate, production):
        if ours.psnr_db is None or theirs.psnr_db is None:
            continue
        allowed = limits.normal_drop_db if ours.condition == "normal" else limits.hard_drop_db
        limit = theirs.psnr_db - allowed
        ok = ours.psnr_db >= limit - limits.tie_db
        detail = (
            "" if ok else f"{ours.psnr_db:.3f} dB, production {theirs.psnr_db:.3f} dB, not below {limit:.3f} dB allowed"
        )
        yield _check(f"quality.{ours.condition}", _where(candidate, ours), ours.psnr_db, limit, "dB", ok, detail)


def flicker(candidate: Candidate, production: Candidate | None, limits: GateLimits) -> Iterator[GateCheck]:
    """Against production: the error must not change more from frame to frame."""
    for ours, theirs in _pairs(candidate, production):
        if ours.flicker_lsb is None or theirs.flicker_lsb is None:
            continue
        limit = theirs.flicker_lsb * (1.0 + limits.flicker_share)
        ok = ours.flicker_lsb <= limit * (1.0 + limits.tie_share)
        detail = (
            "" if ok else f"{ours.flicker_lsb:.3f} LSB a frame, production {theirs.flicker_lsb:.3f}, limit {limit:.3f}"
        )
        yield _check("flicker", _where(candidate, ours), ours.flicker_lsb, limit, "LSB", ok, detail)


def quantisation(candidate: Candidate, _production: Candidate | None, limits: GateLimits) -> Iterator[GateCheck]:
    """INT8 on the device stays close to the FP32 model; a broken calibration shows here first."""
    for row in _model_rows(candidate):
        reference = candidate.float_psnr.get(candidate.name_of(row.evaluation_set))
        if reference is None or row.psnr_db is None:
            continue
        drop = reference - row.psnr_db
        ok = drop < limits.quantisation_drop_db
        detail = (
            ""
            if ok
            else f"INT8 loses {drop:.3f} dB against FP32 ({reference:.3f} dB), allowed is less than "
            f"{limits.quantisation_drop_db} dB: the calibration (scales, zero points) does not fit the activations"
        )
        yield _check("quantisation.drop", _where(candidate, row), drop, limits.quantisation_drop_db, "dB", ok, detail)


def anchor(candidate: Candidate, _production: Candidate | None, limits: GateLimits) -> Iterator[GateCheck]:
    """On normal input the model is no worse than plain enlargement, whatever production does."""
    for row in _model_rows(candidate):
        if row.condition != "normal" or row.psnr_db is None or row.nearest_db is None:
            continue
        limit = row.nearest_db - limits.below_nearest_db
        ok = row.psnr_db >= limit
        detail = (
            ""
            if ok
            else f"{row.psnr_db:.3f} dB, plain enlargement gives {row.nearest_db:.3f} dB: "
            "the integer model destroys the picture (calibration or weights are broken)"
        )
        yield _check("quality.anchor", _where(candidate, row), row.psnr_db, limit, "dB", ok, detail)


def oracle(candidate: Candidate, _production: Candidate | None, limits: GateLimits) -> Iterator[GateCheck]:
    """The device and ONNX Runtime on the CPU give the same integers, but for a small share of 1 LSB."""
    for row in candidate.measurements:
        if row.oracle_values == 0:
            continue
        near = row.oracle_largest <= limits.oracle_lsb
        rare = row.oracle_share <= limits.oracle_share
        where = _where(candidate, row)
        far = "" if near else f"device and CPU differ by {row.oracle_largest} LSB, allowed is {limits.oracle_lsb}"
        often = "" if rare else f"{row.oracle_share:.4%} of the values differ, allowed are {limits.oracle_share:.2%}"
        yield _check(f"oracle.largest.{row.program}", where, row.oracle_largest, limits.oracle_lsb, "LSB", near, far)
        yield _check(f"oracle.share.{row.program}", where, row.oracle_share, limits.oracle_share, "", rare, often)


RULES: tuple[Rule, ...] = (
    evidence_present,
    bundle_size,
    sram_peak,
    decoding,
    oracle,
    quantisation,
    anchor,
    quality,
    flicker,
    latency,
    ddr_traffic,
)


def _check(rule: str, where: str, value: float, limit: float, unit: str, ok: bool, detail: str) -> GateCheck:
    name = f"{rule}@{where}" if where else rule
    return GateCheck(id=name, value=float(value), limit=float(limit), unit=unit, ok=ok, detail=detail)


def _where(candidate: Candidate, row: Measurement) -> str:
    parts = [row.target, row.profile]
    if row.evaluation_set:
        parts.append(NOT_WORD.sub("_", candidate.name_of(row.evaluation_set)))
    return "/".join(parts)


def _model_rows(candidate: Candidate) -> Iterator[Measurement]:
    return (row for row in candidate.measurements if row.program == "model" and row.evaluation_set)


def _pairs(candidate: Candidate, production: Candidate | None) -> Iterator[tuple[Measurement, Measurement]]:
    """The candidate's rows that production has too: same device class, program, profile and frames."""
    if production is None:
        return
    theirs = {_key(row): row for row in production.measurements}
    for row in candidate.measurements:
        if other := theirs.get(_key(row)):
            yield row, other


def _key(row: Measurement) -> tuple[str, str, str, str]:
    return row.target, row.program, row.profile, row.evaluation_set
