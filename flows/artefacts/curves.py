"""Learning curves of a run as one SVG: smoothed loss over the share of the budget, one panel a training."""

from __future__ import annotations

import math
from collections.abc import Mapping

from flows.tasks.curve import Curve

_PANEL, _HEIGHT, _LEFT, _TOP, _BOTTOM = 260, 220, 52, 34, 40


def curves_svg(curves: Mapping[str, Curve]) -> str:
    """The plot. Raises ValueError when no training left a point."""
    shown = {name: _points(curve) for name, curve in curves.items() if _points(curve)}
    if not shown:
        raise ValueError("no training left a learning curve, so there is nothing to plot")
    width = _PANEL * len(shown)
    panels = [_panel(number, name, points, curves[name]) for number, (name, points) in enumerate(shown.items())]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" '
            f'viewBox="0 0 {width} {_HEIGHT}" font-family="sans-serif" font-size="11" role="img">',
            f"<title>Learning curves: {', '.join(shown)}</title>",
            f'<rect width="{width}" height="{_HEIGHT}" fill="#fff"/>',
            *panels,
            "</svg>",
            "",
        ]
    )


def _points(curve: Curve) -> list[tuple[int, float]]:
    return [(step, loss) for step, _, loss in curve.points if math.isfinite(loss)]


def _panel(number: int, name: str, points: list[tuple[int, float]], curve: Curve) -> str:
    left, right, bottom = number * _PANEL + _LEFT, (number + 1) * _PANEL - 14, _HEIGHT - _BOTTOM
    last, low, high = points[-1][0], min(loss for _, loss in points), max(loss for _, loss in points)
    span = max(high - low, 1e-9)

    def place(step: int, loss: float) -> str:
        x = left + (right - left) * step / max(1, last)
        return f"{x:.1f},{bottom - (bottom - _TOP) * (loss - low) / span:.1f}"

    line = " ".join(place(step, loss) for step, loss in points)
    told = f"{name}, {last} steps" + (f", {curve.retreats} steps back" if curve.retreats else "")
    return (
        f'<text x="{left}" y="{_TOP - 12}" font-weight="bold">{told}</text>'
        f'<path d="M{left} {_TOP}V{bottom}H{right}" stroke="#8894a3" fill="none"/>'
        f'<text x="{left - 4}" y="{_TOP + 8}" text-anchor="end">{high:.4g}</text>'
        f'<text x="{left - 4}" y="{bottom}" text-anchor="end">{low:.4g}</text>'
        f'<text x="{(left + right) / 2}" y="{_HEIGHT - 14}" text-anchor="middle">step</text>'
        f'<text transform="translate({left - 40} {(_TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">loss</text>'
        f'<polyline points="{line}" fill="none" stroke="#1f5fa8" stroke-width="1.5"/>'
    )
