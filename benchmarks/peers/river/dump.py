"""Runs inside river's environment: writes its annotated change-point series as JSON to standard output."""

import inspect
import json
import sys
from typing import Any

from river.drift import datasets  # type: ignore[import-not-found]  # installed in the peer's environment only


def main() -> None:
    """Every series with its values and times, row by row, and the marks of each annotator."""
    found = []
    for name, kind in sorted(inspect.getmembers(datasets, inspect.isclass)):
        series: Any = kind()  # Any: river has no types here
        rows = [([str(time) for time in x.values()], _values(y)) for x, y in series]
        values, times = [row[1] for row in rows], [row[0][0] if row[0] else "" for row in rows]
        found.append({"name": name, "values": values, "times": times, "annotations": series.annotations})
    json.dump(found, sys.stdout)


def _values(target: Any) -> list[float]:
    numbers = target.values() if isinstance(target, dict) else [target]
    return [float(number) for number in numbers]


if __name__ == "__main__":
    main()
