"""The timeline: a lane for each kernel and each direction of transfer, over the frame or an excerpt of it."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.html.lanes import STREAMED, Bar, Lane
from compiler.html.svg import Scale, boxes, fits, line, merged, picture, rect, text
from compiler.measures.texts import milliseconds, size
from compiler.measures.texts import tick as told_tick

_LEFT, _PLOT, _RIGHT, _TOP, _BOTTOM = 168, 830, 82, 22, 30
_WIDTH = _LEFT + _PLOT + _RIGHT


def overview(identifier: str, where: str, rows: Sequence[Lane], end_ns: float, mark: tuple[float, float] | None) -> str:
    """The whole frame; what lies closer than a pixel is drawn as one. ``mark`` is where the excerpt is taken."""
    x = Scale(0, end_ns, _LEFT, _LEFT + _PLOT)
    pitch = _pitch(rows)
    height = _TOP + len(rows) * pitch + _BOTTOM
    body = _grid(x, height, 8)
    if mark:
        body.append(rect(x(mark[0]), _TOP - 4, max(x(mark[1]) - x(mark[0]), 2), height - _TOP - _BOTTOM + 8, "window"))
    for index, lane in enumerate(rows):
        top = _TOP + index * pitch
        body += _label(lane, top, pitch, first=index == 0 or rows[index - 1].queue != lane.queue)
        body += _merged_lane(lane, x, top + 2, pitch - 4)
        body.append(text(_busy(lane, end_ns), _LEFT + _PLOT + 8, top + pitch / 2 + 4, "tick"))
    commands = sum(len(lane.bars) for lane in rows)
    title = f"Timeline of {where}, whole frame"
    told = f"{commands} events in {len(rows)} lanes over {milliseconds(end_ns)}; right: how long each lane is busy."
    return picture(identifier, title, told, _WIDTH, height, body)


def excerpt(identifier: str, where: str, rows: Sequence[Lane], begin: float, end: float) -> str:
    """Every event between two times, with its stripe."""
    x = Scale(begin, end, _LEFT, _LEFT + _PLOT)
    found = ((lane, lane.between(begin, end)) for lane in rows)
    inside = [(lane, bars) for lane, bars in found if bars]
    pitch = 20.0
    height = _TOP + len(inside) * pitch + _BOTTOM
    body = _grid(x, height, 6)
    for index, (lane, bars) in enumerate(inside):
        top = _TOP + index * pitch
        body += _label(lane, top, pitch, first=index == 0 or inside[index - 1][0].queue != lane.queue)
        for bar in bars:
            body += _bar(bar, lane, x, top + 2, pitch - 4)
        body += _marks(bars, x, top + pitch / 2 + 4)
    title = f"Timeline of {where}, {milliseconds(begin)} to {milliseconds(end)}"
    told = f"{sum(len(bars) for _, bars in inside)} events; the number in a bar is the stripe of its kernel."
    return picture(identifier, title, told, _WIDTH, height, body)


def _pitch(rows: Sequence[Lane]) -> float:
    return 20.0 if len(rows) <= 28 else 15.0


def _grid(x: Scale, height: float, about: int) -> list[str]:
    parts = []
    for tick in x.ticks(about):
        parts.append(line(x(tick), _TOP - 4, x(tick), height - _BOTTOM + 4, "grid"))
        parts.append(text(told_tick(tick), x(tick), height - 10, "tick", text_anchor="middle"))
    return parts


def _label(lane: Lane, top: float, pitch: float, *, first: bool) -> list[str]:
    parts = [text(_short(lane.name), _LEFT - 8, top + pitch / 2 + 4, "name", text_anchor="end")]
    if first:
        parts.insert(0, line(4, top, _LEFT + _PLOT, top, "parting"))
    return parts


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"


def _merged_lane(lane: Lane, x: Scale, top: float, height: float) -> list[str]:
    work, overhead = [], []
    for bar in lane.bars:
        start, end = bar.event.start_ns, bar.event.end_ns
        ready = min(start + bar.event.overhead_ns, end)
        if ready > start and x(ready) - x(start) > 0.4:
            overhead.append((x(start), x(ready)))
        work.append((x(ready), x(end)))
    return [
        boxes(merged(work, 0.35, 0.35), top, height, f"t {lane.class_}"),
        boxes(merged(overhead, 0.35, 0.35), top, height, "t launch"),
    ]


def _busy(lane: Lane, end_ns: float) -> str:
    if lane.name == STREAMED:
        return ""
    time = sum(bar.event.end_ns - bar.event.start_ns for bar in lane.bars)
    return f"{time / 1e6:.2f} ms" if end_ns >= 1e6 else milliseconds(time)


def _bar(bar: Bar, lane: Lane, x: Scale, top: float, height: float) -> list[str]:
    event = bar.event
    left, right = max(x(event.start_ns), x.start), min(x(event.end_ns), x.stop)
    ready = min(max(x(event.start_ns + event.overhead_ns), left), right)
    parts = [rect(ready, top, right - ready, height, f"t {lane.class_}", bar.hint)]
    if ready - left > 0.3:
        parts.append(rect(left, top, ready - left, height, "t launch", f"{bar.hint}; launch or dispatch"))
    return parts


def _marks(bars: Sequence[Bar], x: Scale, y: float) -> list[str]:
    """The number of each stripe over its bars, or the bytes of a transfer, where there is room."""
    spans: dict[str, tuple[float, float]] = {}
    for number, bar in enumerate(bars):
        key = f"{bar.stripe}" if bar.stripe else f"{size(bar.event.ddr_bytes)}\0{number}"
        left, right = max(x(bar.event.start_ns), x.start), min(x(bar.event.end_ns), x.stop)
        spans[key] = min(spans.get(key, (left, right))[0], left), right
    return [
        text(key.partition("\0")[0], (left + right) / 2, y, "on", text_anchor="middle")
        for key, (left, right) in spans.items()
        if fits(key.partition("\0")[0], right - left, margin=2)
    ]
