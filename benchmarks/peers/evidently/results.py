"""The comparison's table: one row a case and method, as measured or as committed in `results.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

PATH = Path(__file__).parent / "results.json"


@dataclass(frozen=True)
class Row:
    """One method on one case: false alarms of healthy days, days found of those shifted by D = 0.5 and by D = 1.

    `bytes` is what must be kept of both sides to judge one day, `seconds` is one judgement.
    """

    case: str
    method: str
    healthy: int
    false_alarms: int
    shifted: int
    found: int
    large: int
    large_found: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Results:
    """All rows, and what made them."""

    date: str
    packages: dict[str, str]
    rows: tuple[Row, ...]


def read_results(path: Path = PATH) -> Results:
    """The committed table."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    return Results(raw["date"], raw["packages"], tuple(Row(**row) for row in raw["rows"]))


def write_results(results: Results, path: Path = PATH) -> None:
    """Write the table, the same bytes for the same figures."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(results), indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)
