"""What every service goes by, as it tells it."""

from __future__ import annotations

from fastapi import APIRouter

from contracts.wire.settings import HeldSetting, HeldSettings, HeldSince, SettingSection
from tests.dashboard.twin.state import EVIL, NOW, Refusal, Twin

DROP = HeldSetting(name="quantisation_drop_db", value=0.15, default=0.15, unit="dB PSNR", meaning="INT8 must lose less")
EPS = HeldSetting(name="eps", value=None, default=None, variable="EDGELOOP_CURATION_EPS")
EYES = HeldSetting(name="four_eyes", value=True, default=False, meaning=EVIL, variable="EDGELOOP_FOUR_EYES")
KEPT = HeldSetting(name="kept_days", value=30.0, default=30.0, unit="days")
GATE = (
    HeldSince(at=NOW, by="build b-3", values={"quantisation_drop_db": 0.15, "size_bytes": 2e6}),
    HeldSince(at=NOW - 9e6, by="build b-1", values={"quantisation_drop_db": 0.2, "size_bytes": 2e6}),
)
SECTIONS = {
    "builds": SettingSection(name="gate", items=(DROP,), history=GATE),
    "releases": SettingSection(name="rollouts: agreement and sealing", items=(EYES,)),
    "curation": SettingSection(name="hard examples: clusters and coverage", items=(EPS,)),
    "drift": SettingSection(name="hard examples: threshold", items=()),
    "telemetry": SettingSection(name="intake and retention", items=(KEPT,)),
}


def settings_routes(twin: Twin) -> APIRouter:
    """`/{service}/v1/held-settings`."""
    router = APIRouter()

    @router.get("/{service}/v1/held-settings")
    def held(service: str) -> HeldSettings:
        if service not in SECTIONS:
            raise Refusal(404, "there is no such service")
        return HeldSettings(sections=(SECTIONS[service],))

    return router
