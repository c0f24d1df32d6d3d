"""What a frame of each size should cost on this device: the built-in bundle's own estimate.

Devices see calls of different sizes, so plain latencies of two bundles differ by who watched what. Divided by one
fixed reference for the same size they do not. The reference is the built-in bundle's, which an update never changes.
"""

from __future__ import annotations

import csv
import io

from contracts.bundle import Bundle, BundleError

ARRAY_MODEL = "u85-like"
Size = tuple[int, int]


def reference_latencies(bundle: Bundle) -> dict[tuple[str, Size], float]:
    """Milliseconds by (device class, (rows, columns)); empty for a bundle that brings no baseline."""
    found: dict[tuple[str, Size], float] = {}
    for name in bundle.manifest.pieces:
        target, _, piece = name.partition("/")
        if piece == "profile_baseline.csv":
            found |= {(target, size): value for size, value in _totals(_text(bundle, name)).items()}
    return found


def _text(bundle: Bundle, name: str) -> str:
    try:
        return bytes(bundle.piece(name)).decode()
    except (BundleError, UnicodeDecodeError):
        return ""


def _totals(text: str) -> dict[Size, float]:
    totals: dict[Size, float] = {}
    for row in csv.DictReader(io.StringIO(text)):
        if (row.get("program"), row.get("kernel"), row.get("array_model")) != ("model", "total", ARRAY_MODEL):
            continue
        try:
            rows, columns = (int(side) for side in str(row["profile"]).split("x"))
            totals[rows, columns] = float(str(row["microseconds"])) / 1_000.0
        except (KeyError, ValueError):
            continue
    return {size: value for size, value in totals.items() if value > 0}
