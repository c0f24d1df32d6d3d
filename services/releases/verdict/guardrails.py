"""What a new bundle must not do to a device, as data.

Four kinds of guardrail. A *rate* counts devices (each fails or does not); a *mean* compares one number per
device between the canary and its concurrent control; a *crash* guardrail compares the odds of rare events; a *tail*
compares a quantile or a ratio of sums over all devices. `margin` is the harm that is still acceptable at full
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
QUALITY_LOSS_DB = "quality_loss_db"
CRASHED_DEVICES = "crashed_devices"
CRASHES_AGAINST_PAST = "crashes_against_past"
LATENCY_P95 = "latency_p95_log_ratio"
DRIVER_ERROR_RATIO = "driver_error_ratio"


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
    canary devices with a value above zero before a share may condemn a bundle. A `bounded` metric lies in [0, 1] and is
    bet on too, exactly, before the gate opens. One without `holds` condemns, but no promotion waits for it.
    """

    name: str
    margin: float
    ceiling: float
    minimum_sd: float
    minimum_events: int = 0
    bounded: bool = False
    holds: bool = True


@dataclass(frozen=True)
class CrashGuardrail:
    """Odds of a rare event against the control's: more than `odds_margin` times starts a roll back.

    A first release has no control and is held against the share `ceiling`; `tolerated` bounds a promotion as a rate.
    At full exposure devices are held against their own past, which is another time: only more than `past_margin` times
    its crashes start a roll back there, and more than `odds_margin` times hold the release for a person.
    """

    name: str
    odds_margin: float
    ceiling: float
    tolerated: float
    past_margin: float = 2.0


@dataclass(frozen=True)
class TailGuardrail:
    """A statistic over all devices without a formula for its spread, watched by bootstrap paths; it never promotes.

    `quantile` of the devices' latencies, or None for errors over frames. `minimum_events`: see MeanGuardrail.
    """

    name: str
    margin: float
    quantile: float | None = None
    minimum_events: int = 0


@dataclass(frozen=True)
class VerdictPolicy:
    """Everything a verdict depends on apart from the evidence; decisions keep its `code_version`.

    `alpha` is the chance of a wrong roll back, at every look together: `tail_alpha` of it belongs to the tails (which
    need a coarse share, since a thousand paths resolve no finer one), the rest to the alarm over all other cells.

    A promotion may put at most `tolerated` of the fleet at risk by a rate's upper bound, or `tolerated_devices`
    where the fleet is so small that no sample of it could say more.
    """

    code_version: str = "verdict-3"
    alpha: float = 0.05
    tail_alpha: float = 0.01
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
        MeanGuardrail(
            DRIVER_ERROR_SHARE, margin=0.002, ceiling=0.01, minimum_sd=0.0005, minimum_events=3, bounded=True
        ),
        MeanGuardrail(LATENCY_LOG_RATIO, margin=math.log(1.10), ceiling=0.0, minimum_sd=0.01),
        MeanGuardrail(DEADLINE_MISS_SHARE, margin=0.02, ceiling=0.05, minimum_sd=0.002, minimum_events=3, bounded=True),
        MeanGuardrail(FIDELITY_LSB, margin=4.0, ceiling=16.0, minimum_sd=0.1),
        MeanGuardrail(CPU_FRAME_SHARE, margin=0.05, ceiling=0.10, minimum_sd=0.005, minimum_events=3, bounded=True),
        MeanGuardrail(QUALITY_LOSS_DB, margin=0.10, ceiling=6.0, minimum_sd=0.05, holds=False),
    )
    crashes: CrashGuardrail = CrashGuardrail(CRASHED_DEVICES, odds_margin=1.25, ceiling=0.02, tolerated=0.15)
    tails: tuple[TailGuardrail, ...] = (
        TailGuardrail(LATENCY_P95, margin=math.log(1.25), quantile=0.95),
        TailGuardrail(DRIVER_ERROR_RATIO, margin=0.002, minimum_events=10),
    )
    paths: int = 2_000
    tail_devices: int = 2_000
    seed: int = 20_261_130

    @property
    def alarm_alpha(self) -> float:
        """What the alarm over metrics and strata may spend."""
        return self.alpha - self.tail_alpha

    def cell_count(self) -> int:
        """Cells of one stratum that the alarm looks at; crashes and a bounded mean are looked at by two engines."""
        return len(self.rates) + 2 + len(self.means) + sum(mean.bounded for mean in self.means)
