"""Heat and charge of one device: a first-order model that slows the clock when it gets hot.

Power lies between the target's idle and peak watts, by how busy the array is, scaled by V^2 * f of the operating
point. The temperature approaches `ambient + resistance * power` with one time constant. Above `throttle_c` the
device takes the next slower operating point, below `release_c` the next faster one, at most one step in
`step_s`. Invariants: pure arithmetic on simulated seconds; the temperature never passes the steady state of the
highest power drawn, or where it began.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from contracts.npu.spec import NpuSpec, Thermal


@dataclass(frozen=True)
class ClimateModel:
    """Where the device is and what it lives on; targets say the rest (`NpuSpec.thermal`, `NpuSpec.dvfs`)."""

    ambient_c: float | None = None
    """Temperature around the device; None: the target's."""

    battery_wh: float = 15.0
    """Capacity of the battery; 0 means mains power."""

    charge: float = 1.0
    """Share of the battery that is full at the start."""

    other_w: float = 0.0
    """What the rest of the device draws from the battery."""

    step_s: float = 1.0
    """Least time between two steps of the clock."""


@dataclass(frozen=True)
class Conditions:
    """The device at one moment. `point` is the index of the operating point, 0 the fastest."""

    seconds: float
    temperature_c: float
    charge: float
    point: int
    since_step_s: float = math.inf


class DeviceClimate:
    """Heat and charge of a device of `spec`, moved on by the work that it does."""

    def __init__(self, spec: NpuSpec, model: ClimateModel | None = None) -> None:
        self._spec = spec
        self._model = model or ClimateModel()
        self._ambient = spec.thermal.ambient_c if self._model.ambient_c is None else self._model.ambient_c
        self.now = Conditions(0.0, self._ambient, self._model.charge, 0)

    def power_w(self, busy: float, point: int | None = None, core: Thermal | None = None) -> float:
        """Return the watts of the NPU when its array works for the share `busy` of the time; `core` has the watts of
        a little core, the big one's by default.
        """
        thermal, points = core or self._spec.thermal, self._spec.dvfs
        at, fastest = points[self.now.point if point is None else point], points[0]
        scale = (at.millivolt / fastest.millivolt) ** 2 * at.mhz / fastest.mhz
        return thermal.idle_w + (thermal.peak_w - thermal.idle_w) * min(max(busy, 0.0), 1.0) * scale

    def steady_c(self, busy: float, point: int | None = None, core: Thermal | None = None) -> float:
        """Return the temperature that lasting work ends at."""
        return self._ambient + self._spec.thermal.resistance_c_per_w * self.power_w(busy, point, core)

    def pass_time(self, seconds: float, busy: float = 0.0, core: Thermal | None = None) -> Conditions:
        """Move on by `seconds` of work that keeps the array of `core` busy for that share; returns the new conditions.
        The other core is powered down meanwhile.
        """
        if not seconds >= 0.0:
            raise ValueError(f"time goes on by {seconds!r} seconds; give 0 or more")
        now, steady = self.now, self.steady_c(busy, core=core)
        nearer = math.exp(-seconds / self._spec.thermal.time_constant_s)
        moved = replace(
            now,
            seconds=now.seconds + seconds,
            temperature_c=steady + (now.temperature_c - steady) * nearer,
            charge=self._charge(seconds, self.power_w(busy, core=core) + self._model.other_w),
            since_step_s=now.since_step_s + seconds,
        )
        self.now = self._stepped(moved)
        return self.now

    def _charge(self, seconds: float, watts: float) -> float:
        if not self._model.battery_wh:
            return self.now.charge
        return max(0.0, self.now.charge - watts * seconds / 3600 / self._model.battery_wh)

    def _stepped(self, now: Conditions) -> Conditions:
        thermal = self._spec.thermal
        if now.since_step_s < self._model.step_s:
            return now
        if now.temperature_c >= thermal.throttle_c and now.point + 1 < len(self._spec.dvfs):
            return replace(now, point=now.point + 1, since_step_s=0.0)
        if now.temperature_c <= thermal.release_c and now.point > 0:
            return replace(now, point=now.point - 1, since_step_s=0.0)
        return now
