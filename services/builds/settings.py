"""Settings of the builds worker: how to reach a device, and the times that a device and a lease get.

`lab_command` starts one lab process for a device class; `{python}` and `{device_class}` are filled in. A real board
stands in for the emulated one by naming its own command here.
"""

from __future__ import annotations

import shlex
import sys
from functools import lru_cache

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class BuildsSettings(BaseSettings):
    """Read once from `EDGELOOP_BUILDS_*`."""

    model_config = SettingsConfigDict(env_prefix="EDGELOOP_BUILDS_", extra="ignore", frozen=True)

    lab_command: str = "{python} -m edge_agent.lab --device-class {device_class}"
    lab_timeout_s: float = Field(300.0, gt=0, le=3_600)
    lease_s: float = Field(60.0, ge=1, le=3_600, description="a worker silent for so long counts as dead")

    def lab_arguments(self, device_class: str) -> list[str]:
        """The command of one device class as an argument list."""
        words = shlex.split(self.lab_command)
        return [word.format(python=sys.executable, device_class=device_class) for word in words]


@lru_cache(maxsize=1)
def builds_settings() -> BuildsSettings:
    """The process's settings, read from the environment on the first call."""
    return BuildsSettings()
