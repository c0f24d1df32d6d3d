"""A service's own settings as the console shows them: read from what the process really goes by, never retyped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from typing import Any

from pydantic_settings import BaseSettings

from contracts.wire.settings import HeldSetting, SettingValue

Told = Mapping[str, tuple[str, str]]
"""Name -> (unit, meaning)."""


def of_environment(
    settings: BaseSettings, names: Collection[str] = (), units: Mapping[str, str] = {}
) -> tuple[HeldSetting, ...]:
    """Settings that the environment sets, with their descriptions; all of them where none are named."""
    prefix = settings.model_config.get("env_prefix", "")
    return tuple(
        HeldSetting(
            name=name,
            value=_plain(getattr(settings, name)),
            default=_plain(field.get_default()),
            unit=units.get(name, ""),
            meaning=field.description or "",
            variable=f"{prefix}{name}".upper(),
        )
        for name, field in type(settings).model_fields.items()
        if not names or name in names
    )


def of_release(limits: Any, told: Told) -> tuple[HeldSetting, ...]:  # Any: a dataclass of limits
    """Values that are part of the release: fields of a dataclass, those that `told` names."""
    known = {field.name: field.default for field in fields(limits)}
    return tuple(
        HeldSetting(
            name=name, value=_plain(getattr(limits, name)), default=_plain(known[name]), unit=unit, meaning=text
        )
        for name, (unit, text) in told.items()
    )


def _plain(value: object) -> SettingValue:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return float(value)
    return ", ".join(f"{one:g}" for one in value) if isinstance(value, Iterable) else str(value)
