"""The Pareto front of a search as an SVG: every network that was judged, the front, and the candidates worth building.

Axes have units: latency relative to production (the worst device class and frame size) and PSNR in dB on the pairs
set aside for validation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from flows.run_folder import Json
from flows.tasks.vsr.architecture import Architecture

FEWEST, MOST = 5, 8
_WIDTH, _HEIGHT = 760, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 250, 44, 58


@dataclass(frozen=True)
class Point:
    """One judged network."""

    architecture: str
    psnr: float
    latency: float


def points_of(rows: Sequence[Json]) -> list[Point]:
    """Rows of `search.json` as points, each network once."""
    found = {row["architecture"]: Point(row["architecture"], row["psnr"], row["latency_ratio"]) for row in rows}
    return [point for point in found.values() if math.isfinite(point.psnr) and math.isfinite(point.latency)]


def fronts(points: Sequence[Point]) -> list[list[Point]]:
    """Layers of networks that none of the same or a later layer beats in both quality and latency, fastest first."""
    left = sorted(points, key=lambda point: (point.latency, -point.psnr))
    found: list[list[Point]] = []
    while left:
        layer: list[Point] = []
        for point in left:
            if not layer or point.psnr > layer[-1].psnr:
                layer.append(point)
        found.append(layer)
        left = [point for point in left if point not in layer]
    return found


def candidates(points: Sequence[Point], chosen: str, fewest: int = FEWEST, most: int = MOST) -> list[Point]:
    """Five to eight networks for a closer look: the chosen one, the ends of the front and evenly many between.

    Where the front has fewer than five, the best of the next layers follow. Fewer only when fewer were judged.
    """
    layers = fronts(points)
    if not layers:
        return []
    picked = _thinned(layers[0], most)
    for layer in layers[1:]:
        if len(picked) >= fewest:
            break
        picked += sorted(layer, key=lambda point: -point.psnr)[: fewest - len(picked)]
    best = [point for point in points if point.architecture == chosen]
    if best and best[0] not in picked:
        picked = [*picked[: most - 1], best[0]]
    return sorted(picked, key=lambda point: (point.latency, -point.psnr))


def front_svg(searched: Json, limit: float) -> str:
    """The plot of `search.json`; `limit` is the largest latency that the gate allows, relative to production."""
    points = points_of(searched["evaluated"])
    if not points:
        raise ValueError("search.json holds no judged network, so there is nothing to plot")
    marked = candidates(points, searched["chosen"])
    axes = _Axes(points, limit)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12" role="img">',
        f"<title>Pareto front of the search: {len(points)} networks judged, {len(marked)} candidates marked</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        *axes.grid(),
        *[f'<circle cx="{axes.x(p.latency)}" cy="{axes.y(p.psnr)}" r="3" fill="#b5bfcc"/>' for p in points],
        _line(axes, fronts(points)[0]),
        *_marks(axes, marked, searched["chosen"]),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def label(architecture: str) -> str:
    """A short name of a network: trunk and depth x mid of each stage that has blocks."""
    net = Architecture.from_json(architecture)
    stages = [f"{stage.depth}x{stage.mid}" + ("k5" if stage.kernel == 5 else "") for stage in net.stages if stage.depth]
    return f"{net.trunk}: " + " ".join(stages)


class _Axes:
    """Numbers to pixels, rounded so that equal searches give equal bytes."""

    def __init__(self, points: Sequence[Point], limit: float) -> None:
        self.limit = limit
        self._x = _ticks([*(point.latency for point in points), limit])
        self._y = _ticks([point.psnr for point in points])

    def x(self, latency: float) -> float:
        low, high = self._x[0], self._x[-1]
        return round(_LEFT + (latency - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, psnr: float) -> float:
        low, high = self._y[0], self._y[-1]
        return round(_HEIGHT - _BOTTOM - (psnr - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM), 1)

    def grid(self) -> list[str]:
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        parts = []
        for value in self._x:
            parts.append(f'<path d="M{self.x(value)} {_TOP}V{bottom}" stroke="#e6eaf0"/>')
            parts.append(f'<text x="{self.x(value)}" y="{bottom + 18}" text-anchor="middle">{value:g}</text>')
        for value in self._y:
            parts.append(f'<path d="M{_LEFT} {self.y(value)}H{right}" stroke="#e6eaf0"/>')
            parts.append(f'<text x="{_LEFT - 8}" y="{self.y(value) + 4}" text-anchor="end">{value:g}</text>')
        middle, half = (_LEFT + right) / 2, (_TOP + bottom) / 2
        at = self.x(self.limit)
        return [
            *parts,
            f'<path d="M{at} {_TOP}V{bottom}" stroke="#c0392b" stroke-dasharray="5 4"/>',
            f'<text x="{at}" y="{_TOP - 8}" text-anchor="middle" fill="#c0392b">limit {self.limit:g}x</text>',
            f'<text x="{middle}" y="{_HEIGHT - 14}" text-anchor="middle">latency relative to production (x)</text>',
            f'<text transform="translate(20 {half}) rotate(-90)" text-anchor="middle">validation PSNR (dB)</text>',
        ]


def _marks(axes: _Axes, marked: Sequence[Point], chosen: str) -> list[str]:
    parts = []
    for number, point in enumerate(marked, 1):
        x, y, colour = (
            axes.x(point.latency),
            axes.y(point.psnr),
            "#c0392b" if point.architecture == chosen else "#1f5fa8",
        )
        row = _TOP + 26 * number
        text = f"{number}  {label(point.architecture)}"
        told = f"{point.psnr:.2f} dB, {point.latency:.3f}x" + (", chosen" if point.architecture == chosen else "")
        parts += [
            f'<circle class="candidate" cx="{x}" cy="{y}" r="6" fill="{colour}"/>',
            f'<text x="{x + 9}" y="{y - 7}" fill="{colour}">{number}</text>',
            f'<text x="{_WIDTH - _RIGHT + 24}" y="{row}" fill="{colour}">{escape(text)}</text>',
            f'<text x="{_WIDTH - _RIGHT + 38}" y="{row + 12}" font-size="10" fill="#555">{escape(told)}</text>',
        ]
    return parts


def _line(axes: _Axes, front: Sequence[Point]) -> str:
    corners = " ".join(f"{axes.x(point.latency)},{axes.y(point.psnr)}" for point in front)
    return f'<polyline class="front" points="{corners}" fill="none" stroke="#1f5fa8" stroke-width="1.5"/>'


def _thinned(front: list[Point], most: int) -> list[Point]:
    if len(front) <= most:
        return list(front)
    return [front[round(index * (len(front) - 1) / (most - 1))] for index in range(most)]


def _ticks(values: Sequence[float]) -> list[float]:
    """Four to nine round numbers that enclose all values."""
    low, high = min(values), max(values)
    span = max(high - low, 1e-3)
    power = 10.0 ** math.floor(math.log10(span / 4.0))
    step = next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if span / (power * factor) <= 6.0)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(index * step, 9) for index in range(first, max(last, first + 1) + 1)]
