"""What a service goes by: thresholds, defaults and retention with their units, and what they were before."""

from __future__ import annotations

from contracts.wire.base import Answer

SettingValue = float | str | bool | None


class HeldSetting(Answer):
    """One value. `variable` is the environment variable that sets it; where there is none it is part of the release."""

    name: str
    value: SettingValue
    default: SettingValue
    unit: str = ""
    meaning: str = ""
    variable: str = ""


class HeldSince(Answer):
    """Values that came into force at `at` (seconds of the platform's clock), with what brought them."""

    at: float
    by: str
    values: dict[str, SettingValue]


class SettingSection(Answer):
    """Settings that belong together; `history` newest first, empty where a service keeps none."""

    name: str
    items: tuple[HeldSetting, ...]
    history: tuple[HeldSince, ...] = ()


class HeldSettings(Answer):
    """All sections of one service."""

    sections: tuple[SettingSection, ...]
