"""Errors of the bundle, split by what the caller can do.

BundleError
  ForeignBundle   not a bundle, or of a format that this code does not read: fetch the right file
  DamagedPiece    a piece's length or SHA-384 differs from the manifest: fetch again
  MissingPiece    a piece that the caller needs is not there: build for this target
  ForeignPiece    a piece of another build lies in the bundle: never run it, build again
"""

from __future__ import annotations


class BundleError(ValueError):
    """One piece, one reason, one remedy."""

    def __init__(self, piece: str, reason: str, remedy: str) -> None:
        super().__init__(f"bundle piece {piece}: {reason}; {remedy}")
        self.piece = piece
        self.reason = reason
        self.remedy = remedy


class ForeignBundle(BundleError):
    """Another kind of file, or another version of the format."""


class DamagedPiece(BundleError):
    """Bytes differ from what the manifest promises."""


class MissingPiece(BundleError):
    """A required piece is absent."""


class ForeignPiece(BundleError):
    """A piece carries another build id than the manifest."""
