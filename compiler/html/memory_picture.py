"""The memory map: time from left to right, addresses from bottom to top, one rectangle for each live range.

A name stands inside its rectangle where it fits, upright or turned; a long-lived range that is too thin for a name
gets one beside the map. Every range is in the table below, whatever its size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from compiler.html.svg import TEXT_WIDTH, Scale, fits, line, picture, rect, spread, tag, text
from compiler.measures.live_ranges import LiveRange
from compiler.measures.texts import milliseconds, size
from compiler.measures.texts import tick as told_tick
from contracts.npu import Space

_LEFT, _PLOT, _GUTTER, _TOP, _BOTTOM = 74, 700, 306, 18, 34
_LINE = 14
_MOST_LABELS = 60
_TURNED = "turned"
_BREAK = re.compile(r"(?<=,) | (?=→)")


@dataclass(frozen=True)
class _Level:
    label: str
    value: int

    @property
    def class_(self) -> str:
        return f"mark {self.label.split()[-1]}"


def memory_picture(
    identifier: str, where: str, ranges: Sequence[LiveRange], space: Space, limit: int, bound: int | None, end_ns: float
) -> str:
    """The map of one memory; ``limit`` is its size, ``bound`` the least that any plan needs."""
    shown = [entry for entry in ranges if entry.space == space]
    peak = max((entry.offset + entry.size for entry in shown), default=0)
    top = limit if peak > 0.4 * limit else peak * 1.15
    beside = _beside(shown, top, end_ns)
    height = _TOP + _BOTTOM + max(360, min(900, (len(beside) + 4) * _LINE))
    x = Scale(0, end_ns, _LEFT, _LEFT + _PLOT)
    y = Scale(0, top, height - _BOTTOM, _TOP)
    levels = [_Level("limit", limit)] if space == Space.SRAM else []
    levels += [*([_Level("lower bound", bound)] if bound else []), _Level("peak", peak)]
    body = [*_grid(x, y), *(_box(entry, x, y) for entry in shown), *_names(shown, x, y)]
    body += [
        line(x.start, y(level.value), x.stop, y(level.value), level.class_) for level in levels if level.value <= top
    ]
    body += _gutter(beside, levels, x, y)
    title = f"{space.name} of {where}: who holds which bytes when"
    reach = f"peak {size(peak)} of {size(limit)}, over {milliseconds(end_ns)}"
    description = f"{len(shown)} ranges, {reach}. The table below has every range."
    return picture(identifier, title, description, _LEFT + _PLOT + _GUTTER, height, body)


def _grid(x: Scale, y: Scale) -> list[str]:
    parts = []
    for tick in x.ticks(8):
        parts.append(line(x(tick), y.stop, x(tick), y.start, "grid"))
        parts.append(text(told_tick(tick), x(tick), y.start + 16, "tick", text_anchor="middle"))
    step = 2 ** max(0, (int(y.high) // 8).bit_length())
    for address in range(0, int(y.high) + 1, step):
        parts.append(line(x.start, y(address), x.stop, y(address), "grid"))
        parts.append(text(size(address), x.start - 6, y(address) + 4, "tick", text_anchor="end"))
    return parts


def _box(entry: LiveRange, x: Scale, y: Scale) -> str:
    left, top, width, height = _place(entry, x, y)
    hint = (
        f"{entry.label}: {size(entry.size)} at {entry.offset}, {milliseconds(entry.begin_ns)} to "
        f"{milliseconds(entry.end_ns)}, {entry.kind.value}"
    )
    return rect(left, top, width, height, f"m {entry.kind.value}", hint)


def _place(entry: LiveRange, x: Scale, y: Scale) -> tuple[float, float, float, float]:
    left, right = x(entry.begin_ns), x(entry.end_ns)
    bottom, top = y(entry.offset), y(entry.offset + entry.size)
    return left, top, right - left, max(bottom - top, 0.8)


def _inside(entry: LiveRange, x: Scale, y: Scale) -> tuple[str, ...]:
    """The lines of the name as it fits into the rectangle, ``turned`` before them when upright; empty: it does not."""
    _, _, width, height = _place(entry, x, y)
    if height >= _LINE and fits(entry.label, width):
        return (entry.label,)
    lines = _BREAK.split(entry.label, maxsplit=1)
    if len(lines) == 2 and height >= 2 * _LINE and all(fits(part, width) for part in lines):
        return tuple(lines)
    return (_TURNED, entry.label) if width >= _LINE and fits(entry.label, height) else ()


def _names(ranges: Sequence[LiveRange], x: Scale, y: Scale) -> list[str]:
    parts = []
    for entry in ranges:
        left, top, width, height = _place(entry, x, y)
        lines = _inside(entry, x, y)
        middle, centre = left + width / 2, top + height / 2 + 4
        if lines[:1] == (_TURNED,):
            turn = f"rotate(-90 {middle:.1f} {centre - 4:.1f})"
            parts.append(text(lines[1], middle, centre, "name", text_anchor="middle", transform=turn))
            continue
        for number, part in enumerate(lines):
            place = centre + (number - (len(lines) - 1) / 2) * (_LINE - 1)
            parts.append(text(part, middle, place, "name", text_anchor="middle"))
    return parts


def _beside(ranges: Sequence[LiveRange], top: float, end_ns: float) -> list[LiveRange]:
    """Long-lived ranges too thin for their name, by address; the largest ones where there are too many."""
    x, y = Scale(0, end_ns, _LEFT, _LEFT + _PLOT), Scale(0, top, 360, 0)
    thin = [r for r in ranges if r.end_ns - r.begin_ns >= 0.4 * end_ns and not _inside(r, x, y)]
    kept = sorted(thin, key=lambda entry: -entry.size)[:_MOST_LABELS]
    return sorted(kept, key=lambda entry: -entry.offset)


def _gutter(ranges: Sequence[LiveRange], levels: Sequence[_Level], x: Scale, y: Scale) -> list[str]:
    """Names beside the map, each tied to its place by a thin line, pushed apart where they would touch."""
    thin = [entry for entry in ranges if not _inside(entry, x, y)]
    marks = [(y(r.offset + r.size / 2), x(r.end_ns), f"{r.label}, {size(r.size)}", "name") for r in thin]
    for level in levels:
        note = "" if level.value <= y.high else ", above this picture"
        marks.append((y(min(level.value, y.high)), x.stop, f"{level.label} {size(level.value)}{note}", "level"))
    marks.sort()
    places = spread([mark[0] for mark in marks], _LINE, y.stop, y.start)
    parts = []
    for (at, start, label, class_), place in zip(marks, places, strict=True):
        points = f"{start:.1f},{at:.1f} {x.stop + 8:.1f},{at:.1f} {x.stop + 22:.1f},{place:.1f}"
        parts.append(tag("polyline", points=points, class_="leader"))
        parts.append(text(_short(label), x.stop + 26, place + 4, class_))
    return parts


def _short(label: str) -> str:
    most = int((_GUTTER - 34) / TEXT_WIDTH)
    return label if len(label) <= most else f"{label[: most - 1]}…"
