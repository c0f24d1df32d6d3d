"""From which score a frame is hard (tau, part of each observer), and how long drift keeps what it counts once."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from contracts.statistics import ObserverParameters
from contracts.wire.settings import HeldSetting, HeldSettings, HeldSince, SettingSection
from services.drift.limits import LIMITS
from services.drift.models import ObserverRow
from services.kit.held import of_release

SHOWN = 20
KEPT = {
    "inbox_days": ("days", "reports wait this long for the observer that reads them"),
    "seen_days": ("days", "a report that was counted is remembered, so that it counts once"),
    "shard_days": ("days", "halves of the fleet are kept for the weekly A/A report"),
}


def held(session: Session) -> HeldSettings:
    """Tau of the newest observer with those before it; retention."""
    rows = session.scalars(select(ObserverRow).order_by(ObserverRow.created.desc()).limit(SHOWN)).all()
    known = [(row, ObserverParameters.from_bytes(row.parameters).tau) for row in rows]
    items = tuple(
        HeldSetting(
            name="tau",
            value=tau,
            default=tau,
            unit="dB of expected loss",
            meaning="a frame with a higher score is hard; travels in the bundle's observer",
        )
        for _, tau in known[:1]
    )
    history = tuple(
        HeldSince(at=row.created, by=f"observer {row.embedding_id}", values={"tau": tau}) for row, tau in known
    )
    sections = (
        SettingSection(name="hard examples: threshold", items=items, history=history),
        SettingSection(name="drift: retention", items=of_release(LIMITS, KEPT)),
    )
    return HeldSettings(sections=sections)
