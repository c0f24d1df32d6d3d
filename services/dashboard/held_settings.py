"""What the services go by, side by side: gate, rollouts and verdicts, hard examples, retention, with their history."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from contracts.wire.settings import HeldSettings, HeldSince, SettingSection, SettingValue
from services.dashboard.languages import _
from services.dashboard.platform import Loaded, Missing, Platform

SERVICES = ("builds", "releases", "curation", "drift", "telemetry")


@dataclass(frozen=True)
class Held:
    """One service's settings, or why they are not there."""

    service: str
    found: Loaded[HeldSettings] | Missing


@dataclass(frozen=True)
class Changed:
    """One value that changed; `before` is None where nothing was known before."""

    name: str
    before: SettingValue
    after: SettingValue


async def held_by_all(platform: Platform) -> tuple[Held, ...]:
    """Ask every service at once."""
    found = await asyncio.gather(*(platform.get(HeldSettings, f"/{name}/v1/held-settings") for name in SERVICES))
    return tuple(Held(name, one) for name, one in zip(SERVICES, found, strict=True))


def changes(section: SettingSection) -> tuple[tuple[HeldSince, tuple[Changed, ...]], ...]:
    """Every entry of the history with what it changed against the one before; the first known one changed nothing."""
    older: list[HeldSince | None] = [*section.history[1:], None]
    return tuple((one, _against(before, one)) for one, before in zip(section.history, older, strict=False))


def shown(value: SettingValue) -> str:
    """A value as people read it; nothing for one that is not set."""
    if isinstance(value, bool):
        return _("on") if value else _("off")
    if isinstance(value, int | float):
        return f"{value:,.10g}"
    return value or ""


def _against(before: HeldSince | None, now: HeldSince) -> tuple[Changed, ...]:
    if before is None:
        return ()
    names = sorted({*before.values, *now.values})
    pairs = ((name, before.values.get(name), now.values.get(name)) for name in names)
    return tuple(Changed(name, old, new) for name, old, new in pairs if old != new)
