"""A line chart as geometry for SVG made on the server: points, a limit, and where the ends of the scale lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640.0, 140.0


@dataclass(frozen=True)
class Line:
    """Everything inside 0..WIDTH x 0..HEIGHT; `limit` is the height of the limit's line, None without one."""

    points: tuple[tuple[float, float], ...]
    limit: float | None
    lowest: float
    highest: float

    @property
    def path(self) -> str:
        """The points as an SVG polyline has them."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in self.points)


def line_of(values: Sequence[tuple[float, float]], limit: float | None) -> Line:
    """Geometry of (x, y) values, at least one; y grows upwards."""
    xs, ys = [x for x, _ in values], [y for _, y in values]
    known = [*ys, 0.0, *([limit] if limit is not None else [])]
    low, high = min(known), max(known)
    span, width = (high - low) or 1.0, (max(xs) - min(xs)) or 1.0

    def rise(value: float) -> float:
        return HEIGHT - 8 - (value - low) / span * (HEIGHT - 16)

    points = tuple((8 + (x - min(xs)) / width * (WIDTH - 16), rise(y)) for x, y in values)
    return Line(points, None if limit is None else rise(limit), low, high)
