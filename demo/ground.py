"""What the demo stands on: a platform that it starts itself, or one that others run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Access:
    """Where the platform is and what opens it. Tokens and the database's url are secrets."""

    base_url: str
    prefect_api_url: str
    database_url: str
    operator_token: str
    service_token: str
    enrolment_token: str


class Ground(Protocol):
    """A platform under the demo. `root` is the state folder that the flow keeps its runs and models in."""

    @property
    def root(self) -> Path:
        """State folder of the flow: `runs/`, `models/`."""

    @property
    def logs(self) -> str:
        """Where a person finds the logs."""

    @property
    def access(self) -> Access:
        """How to reach the running platform."""

    def start(self) -> Access:
        """Bring it up, or wait until it is. Raises EmbeddedError or DemoError."""

    def stop(self) -> None:
        """End what `start` began. May be called twice."""
