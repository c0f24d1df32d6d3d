"""What a new bundle must not do to a device, as data.

Two kinds of guardrail. A *rate* counts devices (each fails or does not); a *mean* compares one number per
device between the canary and its concurrent control. `margin` is the harm that is still acceptable at full
exposure, in the metric's own unit; larger is always worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

TRIAL_FAILURES = "trial_failures"
SILENT_DEVICES = "silent_devices"
DEGRADED_DEVICES = "degraded_devices"
DRIVER_ERROR_SHARE = "driver_error_share"
LATENCY_LOG_RATIO = "latency_log_ratio"
DEADLINE_MISS_SHARE = "deadline_miss_share"
FIDELITY_LSB = "fidelity_lsb"
CPU_FRAME_SHARE = "cpu_frame_share"


@dataclass(frozen=True)
class RateGuardrail:
    """Share of devices that may fail: `margin` starts a roll back, `tolerated` bounds a promotion.

    `against_control` lifts the margin to what the control itself may suffer (its upper bound).
    """

    name: str
    margin: float
    tolerated: float
    against_control: bool = False


@dataclass(frozen=True)
class MeanGuardrail:
    """Difference of device means. `ceiling` replaces the control in a first release, where none exists.

    `minimum_sd` is the least spread between devices that is believed; `minimum_events` is the number of
    canary devices with a value above zero before a share may condemn a bundle.
    """

    name: str
    margin: float
    ceiling: float
    minimum_sd: float
    minimum_events: int = 0


@dataclass(frozen=True)
class VerdictPolicy:
    """Everything a verdict depends on apart from the evidence; decisions keep its `code_version`.

    A promotion may put at most `tolerated` of the fleet at risk by a rate's upper bound, or `tolerated_devices`
    where the fleet is so small that no sample of it could say more.
    """

    code_version: str = "verdict-1"
    alpha: float = 0.05
    promote_alpha: float = 0.05
    tuned_devices: float = 300.0
    rate_prior: tuple[float, float] = (1.0, 3.0)
    minimum_canary: int = 3
    minimum_control: int = 3
    stratum_share: float = 0.10
    heard_share: float = 0.6
    tolerated_devices: int = 20
    rates: tuple[RateGuardrail, ...] = (
        RateGuardrail(TRIAL_FAILURES, margin=0.02, tolerated=0.15),
        RateGuardrail(SILENT_DEVICES, margin=0.10, tolerated=0.30),
        RateGuardrail(DEGRADED_DEVICES, margin=0.02, tolerated=0.15, against_control=True),
    )
    means: tuple[MeanGuardrail, ...] = (
        MeanGuardrail(DRIVER_ERROR_SHARE, margin=0.002, ceiling=0.01, minimum_sd=0.0005, minimum_events=3),
        MeanGuardrail(LATENCY_LOG_RATIO, margin=math.log(1.10), ceiling=0.0, minimum_sd=0.01),
        MeanGuardrail(DEADLINE_MISS_SHARE, margin=0.02, ceiling=0.05, minimum_sd=0.002, minimum_events=3),
        MeanGuardrail(FIDELITY_LSB, margin=4.0, ceiling=16.0, minimum_sd=0.1),
        MeanGuardrail(CPU_FRAME_SHARE, margin=0.05, ceiling=0.10, minimum_sd=0.005, minimum_events=3),
    )

    def metric_count(self) -> int:
        return len(self.rates) + len(self.means)
