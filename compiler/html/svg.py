"""SVG and HTML as text: escaping, tags, a scale with round ticks. Nothing here knows what is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

TEXT_WIDTH = 6.3  # average advance of a character at 11 px in the page's font, on the generous side


def tag(name: str, *content: str, **attributes: object) -> str:
    """One element; ``class_`` becomes class, ``text_anchor`` text-anchor. None leaves an attribute out."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{_value(value)}"')
    inside = "".join(content)
    return f"<{' '.join(parts)}>{inside}</{name}>" if inside or name not in _VOID else f"<{' '.join(parts)}/>"


_VOID = ("rect", "line", "path", "polyline", "circle")


def text(content: str, x: float, y: float, class_: str = "", **attributes: object) -> str:
    """A line of text, escaped."""
    return tag("text", escape(content), x=x, y=y, class_=class_ or None, **attributes)


def rect(x: float, y: float, width: float, height: float, class_: str, hint: str = "", **attributes: object) -> str:
    """A rectangle; ``hint`` is shown while the pointer rests on it."""
    title = tag("title", escape(hint)) if hint else ""
    return tag("rect", title, x=x, y=y, width=max(width, 0.5), height=height, class_=class_, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def boxes(spans: Iterable[tuple[float, float]], y: float, height: float, class_: str) -> str:
    """Many rectangles of one lane as one path, for lanes with hundreds of them."""
    steps = [f"M{_value(a)} {_value(y)}h{_value(b - a)}v{_value(height)}h{_value(a - b)}z" for a, b in spans]
    return tag("path", d="".join(steps), class_=class_) if steps else ""


def picture(identifier: str, title: str, description: str, width: float, height: float, body: Sequence[str]) -> str:
    """An SVG with a name and a description for those who do not see it, in a box that scrolls when it is narrow."""
    head = tag("title", escape(title), id=f"{identifier}-t") + tag("desc", escape(description), id=f"{identifier}-d")
    drawing = tag(
        "svg",
        head,
        *body,
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        role="img",
        aria_labelledby=f"{identifier}-t {identifier}-d",
        style=f"min-width:{_value(width * 0.75)}px",
    )
    return tag("div", drawing, class_="picture", tabindex=0, role="group", aria_label=title)


@dataclass(frozen=True)
class Scale:
    """Values ``low`` .. ``high`` on pixels ``start`` .. ``stop``."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (value - self.low) / span * (self.stop - self.start) if span > 0 else self.start

    def ticks(self, about: int = 6) -> list[float]:
        """Round values inside the scale."""
        step = round_step((self.high - self.low) / max(about, 1))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [index * step for index in range(first, last + 1)]


def round_step(rough: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= rough * 0.999), 10 * power)


def merged(spans: Iterable[tuple[float, float]], gap: float, least: float) -> list[tuple[float, float]]:
    """Spans in rising order, joined where less than ``gap`` lies between them, each at least ``least`` wide."""
    joined: list[tuple[float, float]] = []
    for begin, end in spans:
        end = max(end, begin + least)
        if joined and begin - joined[-1][1] < gap:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


def spread(wanted: Sequence[float], distance: float, low: float, high: float) -> list[float]:
    """Places as near as can be to the wanted ones (in rising order), ``distance`` apart, between ``low`` and ``high``.

    Labels that would touch become a group around the mean of what they want.
    """
    groups: list[tuple[float, int]] = []  # sum of wishes less each label's place within the group, number of labels
    for index, place in enumerate(wanted):
        total, members = place - index * distance, 1
        while groups and groups[-1][0] / groups[-1][1] > total / members:
            before, count = groups.pop()
            total, members = total + before, members + count
        groups.append((total, members))
    means = [total / members for total, members in groups for _ in range(members)]
    last = high - (len(means) - 1) * distance
    return [max(low, min(mean, last)) + index * distance for index, mean in enumerate(means)]


def fits(label: str, width: float, margin: float = 6) -> bool:
    """Whether a label can stand within so many pixels."""
    return len(label) * TEXT_WIDTH + margin <= width


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return escape(str(value))
