"""What the gate goes by, and since when: a row for every set of thresholds that ever judged a build."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import select
from sqlalchemy.orm import Session

from contracts.wire.settings import HeldSettings, HeldSince, SettingSection
from services.builds.limits import GATE, GateLimits
from services.builds.models import GateLimitsRow
from services.kit.held import of_release

SHOWN = 50
SHARE = "share of production's"
TOLD = {
    "latency_p99_share": (SHARE, "P99 latency that a candidate may add"),
    "ddr_share": (SHARE, "bytes over DDR a frame that a candidate may add"),
    "size_bytes": ("bytes", "a bundle must be smaller"),
    "normal_drop_db": ("dB PSNR", "quality that a candidate may lose on normal sets"),
    "hard_drop_db": ("dB PSNR", "quality that a candidate may lose on hard sets"),
    "flicker_share": (SHARE, "change of the error from frame to frame that a candidate may add"),
    "quantisation_drop_db": ("dB PSNR", "INT8 on the device must lose less against FP32"),
    "below_nearest_db": ("dB PSNR", "that a candidate may lie below plain enlargement"),
    "decode_ms": ("ms", "decoding the constants of one program may add to its load"),
    "oracle_lsb": ("steps of 8 bits", "largest difference from the second opinion"),
    "oracle_share": ("share of values", "values that may differ from the second opinion"),
    "tie_db": ("dB", "difference that counts as none"),
    "tie_share": ("share", "difference that counts as none"),
}


def note(session: Session, at: float, build_id: str, limits: GateLimits = GATE) -> None:
    """Write down the thresholds that judge now, if they are not those that judged before."""
    newest = session.scalars(select(GateLimitsRow).order_by(GateLimitsRow.id.desc()).limit(1)).first()
    if newest is not None and newest.limits == asdict(limits):
        return
    session.add(GateLimitsRow(limits=asdict(limits), since=at, build_id=build_id))


def held(session: Session) -> HeldSettings:
    """The gate's thresholds with their history."""
    rows = session.scalars(select(GateLimitsRow).order_by(GateLimitsRow.id.desc()).limit(SHOWN)).all()
    older = [*rows[1:], None][: len(rows)]  # two workers may have written down the same thresholds at once
    history = tuple(
        HeldSince(at=row.since, by=f"build {row.build_id}", values=row.limits)
        for row, before in zip(rows, older, strict=True)
        if before is None or before.limits != row.limits
    )
    return HeldSettings(sections=(SettingSection(name="gate", items=of_release(GATE, TOLD), history=history),))
