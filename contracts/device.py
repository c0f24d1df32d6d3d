"""What a device says of itself: coarse tags only, for targeting and for cohorts.

Tags are words from short lists, never a serial number, an address or an exact time.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

Tag = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,31}$")]


class DeviceTags(BaseModel):
    """Device fingerprint, network and scenario, as coarse as targeting needs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    device_class: Tag
    driver: Tag = "1.0"
    region: Tag = "unknown"
    network: Tag = "unknown"
    scenario: Tag = "unknown"

    @property
    def cohort(self) -> str:
        """The group that drift is judged over: device class and scenario."""
        return f"{self.device_class}/{self.scenario}"
