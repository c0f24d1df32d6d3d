"""Vectors in the database: 32 little-endian float32 a row."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from contracts.features import VECTOR_LENGTH


def to_bytes(vector: NDArray[np.floating]) -> bytes:
    """Write one vector or a matrix of vectors."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def matrix(rows: Iterable[bytes]) -> NDArray[np.float32]:
    """Read rows (or whole matrices) into one n x 32 matrix."""
    return np.frombuffer(b"".join(rows), dtype="<f4").astype(np.float32).reshape(-1, VECTOR_LENGTH)


def numbers(row: bytes) -> tuple[float, ...]:
    """Read one vector as numbers for JSON."""
    return tuple(float(value) for value in np.frombuffer(row, dtype="<f4"))
