"""Which of a bundle's two kernel sets a device runs: the big one, or the little one when it is hot or nearly empty.

Two thresholds for each reason keep the choice from flapping: a device goes back to the big set only when it is
cool AND charged. Invariant: the choice depends on the present conditions and the present set alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from edge_agent.runtime.npu.climate import Conditions


class KernelSet(Enum):
    """The program of that piece name."""

    BIG = "model"
    LITTLE = "model-little"


@dataclass(frozen=True)
class KernelSetLimits:
    """When to leave the big set, and when to come back to it."""

    hot_c: float = 80.0
    cool_c: float = 70.0
    low_charge: float = 0.15
    enough_charge: float = 0.25

    def __post_init__(self) -> None:
        if not (self.cool_c < self.hot_c and self.low_charge < self.enough_charge):
            raise ValueError(f"thresholds without a gap would flap: {self}")


@dataclass(frozen=True)
class SetSwitch:
    """A change of the set, and why."""

    before: KernelSet
    after: KernelSet
    reason: str
    conditions: Conditions


Rule = Callable[[Conditions, KernelSetLimits], str | None]


def _hot(now: Conditions, limits: KernelSetLimits) -> str | None:
    return f"{now.temperature_c:.1f} C" if now.temperature_c >= limits.hot_c else None


def _empty(now: Conditions, limits: KernelSetLimits) -> str | None:
    return f"{now.charge:.0%} charge" if now.charge <= limits.low_charge else None


def _recovered(now: Conditions, limits: KernelSetLimits) -> str | None:
    fine = now.temperature_c <= limits.cool_c and now.charge >= limits.enough_charge
    return f"{now.temperature_c:.1f} C and {now.charge:.0%} charge" if fine else None


_RULES: dict[KernelSet, tuple[KernelSet, tuple[Rule, ...]]] = {
    KernelSet.BIG: (KernelSet.LITTLE, (_hot, _empty)),
    KernelSet.LITTLE: (KernelSet.BIG, (_recovered,)),
}


def switch_due(current: KernelSet, now: Conditions, limits: KernelSetLimits) -> SetSwitch | None:
    """Return the switch that the conditions ask for; None to stay."""
    other, rules = _RULES[current]
    reasons = [reason for rule in rules if (reason := rule(now, limits))]
    return SetSwitch(current, other, ", ".join(reasons), now) if reasons else None
