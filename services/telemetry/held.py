"""How long telemetry keeps what, and how late a device may send."""

from __future__ import annotations

from contracts.wire.settings import HeldSettings, SettingSection
from services.kit.held import of_release
from services.telemetry.limits import LIMITS

TOLD = {
    "kept_days": ("days", "reports and segments are kept, then whole days are dropped"),
    "late_days": ("days", "a report may be this old"),
    "segment_late_days": ("days", "a hard segment may be this old"),
    "ahead_days": ("days", "a device's clock may be ahead"),
    "refusal_days": ("days", "counts of refused reports are kept"),
    "lag_alarm_s": ("s", "a row that its reader does not have by then is said aloud"),
}


def held() -> HeldSettings:
    """Retention and lateness."""
    return HeldSettings(sections=(SettingSection(name="intake and retention", items=of_release(LIMITS, TOLD)),))
