"""Size and pace of the demo. All of it is printed at the start, the compression of time first."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.clock import SECONDS_PER_DAY


@dataclass(frozen=True)
class DemoSettings:
    """A quarter of an hour on two cores.

    `day_s` is how many real seconds a simulated day lasts while the fleet is watched, `learning_factor` the pace
    while a model is trained (learning takes real minutes, so time must not fly), `release_day_s` the pace of rollouts.
    `patience` stretches every wait, for a platform whose services are killed on purpose.
    """

    light_devices: int = 300
    full_devices: int = 6
    full_fps: float = 2.0
    day_s: float = 20.0
    learning_factor: float = 60.0
    release_day_s: float = 20.0
    healthy_days: int = 3
    frames_per_day: int = 16
    min_report_frames: int = 8
    trial_frames: int = 6
    variants: int = 6
    clip_frames: int = 60
    budget_minutes: float = 4.0
    soak_hours: float = 6.0
    min_devices: int = 5
    wall_limit_s: float = 900.0
    patience: float = 1.0
    seed: int = 7
    second_act: bool = True

    @property
    def watching_factor(self) -> float:
        """Simulated seconds per real second while the fleet is watched."""
        return SECONDS_PER_DAY / self.day_s

    @property
    def release_factor(self) -> float:
        """Simulated seconds per real second while a release rolls out."""
        return SECONDS_PER_DAY / self.release_day_s


SHORT = DemoSettings(
    light_devices=195,
    full_devices=3,
    day_s=14.0,
    frames_per_day=10,
    min_report_frames=5,
    trial_frames=3,
    variants=3,
    clip_frames=30,
    budget_minutes=3.0,
    second_act=False,
)
"""One turn of the loop with a smaller fleet, shorter days and three quarters of the learning budget; the candidate
still has to pass the real gate."""

SHORT_MUST_HOLD = (
    "upload.segment_bytes", "upload.report_bytes", "upload.pixel_fields", "drift.alarm.changed",
    "drift.alarm.unchanged", "coverage.after", "quality.int8_drop", "fleet.on_new_bundle",
    "fleet.unverified_bytes_run", "demo.people_actions",
)  # fmt: skip
"""Promises that the short turn keeps too; how much better the new model is, the long one judges."""
