"""The digest of a plan: equal for equal clusters and survivors, so that what is applied is what was read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def plan_digest(members: Iterable[tuple[str, int, bool]]) -> str:
    """SHA-256 over (segment id, label, kept) of all clustered segments, whatever their order."""
    whole = hashlib.sha256()
    for segment_id, label, kept in sorted(members):
        whole.update(f"{segment_id}\t{label}\t{int(kept)}\n".encode())
    return whole.hexdigest()
