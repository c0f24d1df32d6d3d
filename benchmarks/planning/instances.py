"""The eleven "challenging" minimalloc problems, read from their CSV files.

They lie beside the checkout, in `../shared/data/minimalloc`, or where EDGELOOP_MINIMALLOC says. Columns are id, lower,
upper (excluded) and size in bytes; the capacity is part of the file's name: `A.1048576.csv`.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compiler.memory import Buffer

VARIABLE = "EDGELOOP_MINIMALLOC"
BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data" / "minimalloc"


@dataclass(frozen=True)
class Instance:
    """Buffers that have to fit `capacity` bytes."""

    name: str
    buffers: tuple[Buffer, ...]
    capacity: int


def minimalloc(folder: Path | None = None) -> list[Instance]:
    """All problems by name; ends the process with one line when they are not there."""
    root = folder or Path(os.environ.get(VARIABLE, BESIDE))
    files = sorted((root / "benchmarks" / "challenging").glob("*.csv"))
    if not files:
        raise SystemExit(
            f"no minimalloc problems in {root}: expected benchmarks/challenging/*.csv; set {VARIABLE} to their folder"
        )
    return [read_csv(file) for file in files]


def read_csv(file: Path) -> Instance:
    """One problem; a SystemExit names the file when it is not in the format."""
    try:
        name, capacity, _ = file.name.split(".")
        with file.open(newline="") as lines:
            return Instance(name, tuple(_buffers(list(csv.DictReader(lines)))), int(capacity))
    except (KeyError, TypeError, ValueError) as error:
        raise SystemExit(
            f"{file.name}: not a problem in CSV with id,lower,upper,size ({error}); copy it again"
        ) from None


def _buffers(rows: Sequence[dict[str, str]]) -> list[Buffer]:
    """The planner counts the last step in, the files exclude the upper one."""
    return [Buffer(row["id"], int(row["size"]), int(row["lower"]), int(row["upper"]) - 1) for row in rows]
