"""Deltas from the newest bundles to a new one, as targets of their own beside it.

A device that holds the base takes the delta when it is clearly smaller, and the bundle in every other case, so a delta
that is missing costs bytes and nothing else. Which one a device may use follows from both digests; nothing in the
state document changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from contracts.bundle.chunks import Chunks
from contracts.bundle.delta import delta_path, make_delta
from contracts.bundle.sealed import SealedError
from services.releases.keys import KeyUnusable
from services.releases.limits import DELTAS
from services.releases.models import BundleRow
from services.releases.sealing import Sealing, is_sealed
from services.releases.tuf_repository import UpdateRepository

log = structlog.get_logger(__name__)


def add_deltas(
    repository: UpdateRepository, sealing: Sealing, bases: Sequence[BundleRow], row: BundleRow, data: bytes
) -> int:
    """Publish the deltas that win from `bases` to `row`, whose plain bytes are `data`; returns how many.

    A delta to a sealed bundle is sealed itself; from a sealed bundle to a plain one there is none.
    """
    if len(data) > DELTAS.bundle_bytes:
        return 0
    added = 0
    for base in bases:
        if is_sealed(base) and not is_sealed(row):
            continue
        before = _plain(repository, sealing, base)
        if before is None or len(before) > DELTAS.bundle_bytes:
            continue
        path, delta = delta_path(row.digest, base.digest), make_delta(before, data)
        if len(delta) >= DELTAS.share * len(data):
            continue
        if is_sealed(row):
            sealed = sealing.delta(row, base.digest, delta)
            path, delta = sealed.path, sealed.data
        repository.add_target(path, delta, {"kind": "delta", **Chunks.of(delta).custom()})
        added += 1
    return added


def _plain(repository: UpdateRepository, sealing: Sealing, base: BundleRow) -> bytes | None:
    """The base in clear; one whose key cannot be unwrapped costs its delta and nothing else."""
    try:
        return sealing.plain(repository, base)
    except (KeyUnusable, SealedError) as error:
        log.warning("delta_base_not_readable", base=base.digest[:16], error=str(error))
        return None
