"""Deltas from the newest bundles to a new one, as targets of their own beside it.

A device that holds the base takes the delta when it is clearly smaller, and the bundle in every other case, so a delta
that is missing costs bytes and nothing else. Which one a device may use follows from both digests; nothing in the
state document changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from contracts.bundle.chunks import Chunks
from contracts.bundle.delta import delta_path, make_delta
from services.releases.limits import DELTAS
from services.releases.models import BundleRow
from services.releases.tuf_repository import UpdateRepository


def add_deltas(repository: UpdateRepository, bases: Sequence[BundleRow], digest: str, data: bytes) -> int:
    """Publish the deltas that win; returns how many."""
    if len(data) > DELTAS.bundle_bytes:
        return 0
    added = 0
    for base in bases:
        before = repository.read_target(base.target_path)
        if before is None or len(before) > DELTAS.bundle_bytes:
            continue
        delta = make_delta(before, data)
        if len(delta) < DELTAS.share * len(data):
            custom = {"kind": "delta", **Chunks.of(delta).custom()}
            repository.add_target(delta_path(digest, base.digest), delta, custom)
            added += 1
    return added
