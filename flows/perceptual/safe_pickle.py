"""A reader of pickles that hold nothing but dictionaries of numpy arrays.

A pickle is a program. This reader knows three names (the ones that an array of plain numbers needs) and refuses every
other one before it is looked up, so that a file from elsewhere can spoil numbers but cannot run anything.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

_MAX_BYTES = 128 * 2**20
_ARRAY_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")


class UnsafePickle(Exception):
    """The file asks for something else than arrays, is too large, or is not a pickle."""


def load_arrays(data: bytes) -> dict[str, np.ndarray]:
    """Arrays of a pickle by the path of their keys, "A/B/kernel" -> array.

    Raises UnsafePickle for any name besides numpy's arrays, for arrays of objects, and for broken files.
    """
    if len(data) > _MAX_BYTES:
        raise UnsafePickle(f"{len(data)} bytes, limit {_MAX_BYTES}")
    try:
        tree = _Arrays(io.BytesIO(data)).load()
    except UnsafePickle:
        raise
    except Exception as error:  # a broken pickle may raise anything at all
        raise UnsafePickle(f"not a readable pickle of arrays: {type(error).__name__}: {error}") from error
    found: dict[str, np.ndarray] = {}
    _flatten(tree, "", found)
    return found


class _Arrays(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:  # Any: as the base class
        if module in _ARRAY_MODULES and name == "_reconstruct":
            return _reconstruct
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        raise UnsafePickle(f"the file asks for {module}.{name}; only numpy arrays are read")

    def persistent_load(self, pid: Any) -> Any:  # Any: as the base class
        raise UnsafePickle(f"the file refers to {pid!r} outside itself")


def _reconstruct(kind: type, _shape: object, _code: object) -> np.ndarray:
    if kind is not np.ndarray:
        raise UnsafePickle(f"an array of type {kind!r}")
    return np.ndarray((0,), np.uint8)


def _flatten(tree: object, path: str, found: dict[str, np.ndarray]) -> None:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if not isinstance(key, str):
                raise UnsafePickle(f"key {key!r} below {path or 'the root'} is no text")
            _flatten(value, f"{path}/{key}" if path else key, found)
    elif isinstance(tree, np.ndarray) and tree.dtype.kind in "fiub":
        found[path] = tree
    else:
        raise UnsafePickle(f"{path or 'the root'} holds {type(tree).__name__}, not numbers")
