"""What a run leaves for the next (`domain/known.py`), as one object of the store.

It is named by its run and checked by its SHA-256, which the run's row holds; arrays only, never pickled objects.
"""

from __future__ import annotations

import hashlib
import io
import zipfile

import numpy as np

from services.curation.domain.known import Known
from services.curation.domain.scan.grown import Grown
from services.kit.storage import ObjectMissing, store


def keep(run_id: str, known: Known) -> str:
    """Store what a run knows; returns its SHA-256."""
    buffer = io.BytesIO()
    grown = known.grown
    np.savez_compressed(
        buffer,
        ids=known.ids,
        point=known.point,
        eps=np.float64(known.eps),
        min_samples=np.int64(grown.min_samples),
        seen=grown.seen,
        root=grown.root,
        left=grown.left,
        right=grown.right,
    )
    data = buffer.getvalue()
    store().put(_key(run_id), data)
    return hashlib.sha256(data).hexdigest()


def recall_known(run_id: str, digest: str) -> Known | None:
    """What a run left; None where it is gone or is not what was stored."""
    try:
        data = store().get(_key(run_id))
    except ObjectMissing:
        return None
    if hashlib.sha256(data).hexdigest() != digest:
        return None
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as read:
            sides = (read[name] for name in ("seen", "root", "left", "right"))
            grown = Grown(int(read["min_samples"]), *sides)
            known = Known(read["ids"], read["point"], float(read["eps"]), grown)
        known.check()
    except (KeyError, ValueError, zipfile.BadZipFile):
        return None
    return known


def forget(run_id: str) -> None:
    """Remove what a run left."""
    store().delete(_key(run_id))


def _key(run_id: str) -> str:
    return f"curation/known/{run_id}.npz"
