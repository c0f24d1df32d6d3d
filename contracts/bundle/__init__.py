"""The ``*.elb`` bundle: one deterministic file with everything that a device needs to run a release."""

from __future__ import annotations

from contracts.bundle.errors import BundleError, DamagedPiece, ForeignBundle, ForeignPiece, MissingPiece
from contracts.bundle.limits import BundleLimits
from contracts.bundle.manifest import Manifest, PieceRecord
from contracts.bundle.reader import Bundle
from contracts.bundle.writer import write_bundle

__all__ = [
    "Bundle",
    "BundleError",
    "BundleLimits",
    "DamagedPiece",
    "ForeignBundle",
    "ForeignPiece",
    "Manifest",
    "MissingPiece",
    "PieceRecord",
    "write_bundle",
]
