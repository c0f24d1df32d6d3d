"""Fixtures of the agent's tests: the platform's twin and a workshop that builds agents around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.edge_agent.workshop import Workshop
from tests.support.platform_twin import PlatformTwin


@pytest.fixture
def twin() -> Iterator[PlatformTwin]:
    with PlatformTwin() as running:
        yield running


@pytest.fixture
def workshop(tmp_path: Path, twin: PlatformTwin) -> Iterator[Workshop]:
    made = Workshop(tmp_path, twin)
    yield made
    made.close()
