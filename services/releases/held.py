"""What a rollout goes by where nobody says otherwise, what a verdict tolerates, and who must agree."""

from __future__ import annotations

import math

from contracts.wire.releases import RolloutRequest
from contracts.wire.settings import HeldSetting, HeldSettings, SettingSection, SettingValue
from services.kit.held import of_environment, of_release
from services.kit.settings import settings
from services.releases.limits import DEVICE, METADATA, ROLLOUT
from services.releases.verdict.guardrails import VerdictPolicy

ROLLOUTS = {
    "stages": ("hundredths of a percent", "share of the fleet that each stage reaches"),
    "soak_s": ("s", "a stage is watched this long before it may pass"),
    "min_devices": ("devices", "a stage is widened until it has as many"),
    "silent_after_s": ("s", "a device that was offered the bundle and says nothing counts as silent"),
}
POLICY = {
    "alpha": ("chance", "of a wrong roll back, over all looks, metrics and device classes together"),
    "tail_alpha": ("chance", "of it for tails"),
    "promote_alpha": ("chance", "of a wrong promotion at a look"),
    "minimum_canary": ("devices", "with the bundle before a metric is judged"),
    "minimum_control": ("devices", "without it before a metric is judged"),
    "heard_share": ("share of devices", "that must be heard before a stage passes"),
    "tolerated_devices": ("devices", "that may be at risk in a small fleet"),
}
PATIENCE = {"patience": ("silent deadlines", "after the soak without a verdict, then a person is asked")}
KEPT = {
    "item_days": ("days", "a device's report is remembered, so that it counts once"),
}
SIGNED = {
    "root_s": ("s", "signed root metadata are valid"),
    "targets_s": ("s", "signed lists of bundles are valid"),
    "timestamp_s": ("s", "the signed newest state is valid"),
}


def held() -> HeldSettings:
    """Rollouts, verdicts, agreement, retention."""
    policy = VerdictPolicy()
    sections = (
        SettingSection(name="rollouts: defaults", items=(*_request(), *of_release(ROLLOUT, PATIENCE))),
        SettingSection(name="rollouts: verdict", items=(*of_release(policy, POLICY), *_margins(policy))),
        SettingSection(
            name="rollouts: agreement and sealing",
            items=of_environment(settings(), ("four_eyes", "bundle_encryption")),
        ),
        SettingSection(
            name="releases: retention and validity", items=(*of_release(DEVICE, KEPT), *of_release(METADATA, SIGNED))
        ),
    )
    return HeldSettings(sections=sections)


def _request() -> tuple[HeldSetting, ...]:
    fields = RolloutRequest.model_fields
    return tuple(
        _setting(name, _shown(fields[name].get_default()), unit, meaning) for name, (unit, meaning) in ROLLOUTS.items()
    )


def _margins(policy: VerdictPolicy) -> tuple[HeldSetting, ...]:
    rates = [_setting(f"{one.name}.margin", one.margin, "share of devices", "more rolls back") for one in policy.rates]
    means = [_setting(f"{one.name}.margin", one.margin, _unit(one.name), "more rolls back") for one in policy.means]
    tails = [_setting(f"{one.name}.margin", one.margin, _unit(one.name), "more rolls back") for one in policy.tails]
    crashes = _setting(
        f"{policy.crashes.name}.odds_margin", policy.crashes.odds_margin, "times the control's odds", "more rolls back"
    )
    return (*rates, *means, crashes, *tails)


def _unit(name: str) -> str:
    for ending, unit in (("_log_ratio", "natural logarithm of the ratio"), ("_lsb", "steps of 8 bits"), ("_db", "dB")):
        if name.endswith(ending):
            return unit
    return "share of frames"


def _setting(name: str, value: SettingValue, unit: str, meaning: str) -> HeldSetting:
    held = round(value, 6) if isinstance(value, float) and math.isfinite(value) else value
    return HeldSetting(name=name, value=held, default=held, unit=unit, meaning=meaning)


def _shown(value: object) -> SettingValue:
    return ", ".join(str(one) for one in value) if isinstance(value, tuple) else float(str(value))
