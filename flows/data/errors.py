"""Errors of the data layer.

DataError
├── CorpusError   the folder, the manifest or the split is unusable: change the input
├── VideoError    one file cannot be decoded or encoded: remove or replace that file
└── FaultError    a fault or a chain of them is not one that exists: correct its numbers
"""

from __future__ import annotations


class DataError(Exception):
    """Base of every error that the data layer raises on purpose."""


class CorpusError(DataError):
    """The corpus as a whole cannot be used."""


class VideoError(DataError):
    """One video cannot be read or written."""


class FaultError(DataError):
    """A fault has an unknown kind, an unknown field or a number outside its range, or comes in the wrong order."""
