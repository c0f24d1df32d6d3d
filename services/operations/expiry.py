"""When the update metadata that are served now expire: past that, devices refuse every update."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from services.kit.storage import ObjectMissing, store
from services.releases.tuf_repository import TIMESTAMP, metadata_key

ROOTS = 1_000


def expiries() -> Iterator[tuple[str, float]]:
    """Role and expiry (Unix time), nothing before the first release. Raises ObjectMissing for a torn repository."""
    if not store().exists(metadata_key(TIMESTAMP)):
        return
    timestamp = _signed(TIMESTAMP)
    snapshot = _signed(f"{timestamp['meta']['snapshot.json']['version']}.snapshot.json")
    targets = _signed(f"{snapshot['meta']['targets.json']['version']}.targets.json")
    for role, signed in (("root", _newest_root()), ("targets", targets), ("snapshot", snapshot)):
        yield role, _moment(signed)
    yield "timestamp", _moment(timestamp)


def _newest_root() -> dict[str, Any]:  # Any: JSON
    newest = _signed("1.root.json")
    for version in range(2, ROOTS):
        try:
            newest = _signed(f"{version}.root.json")
        except ObjectMissing:
            break
    return newest


def _signed(name: str) -> dict[str, Any]:  # Any: JSON
    document: dict[str, Any] = json.loads(store().get(metadata_key(name)))["signed"]
    return document


def _moment(signed: dict[str, Any]) -> float:  # Any: JSON
    return datetime.fromisoformat(signed["expires"]).timestamp()
