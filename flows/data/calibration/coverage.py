"""Rules of a calibration set, judged by what its frames show, not by what they are called.

The rules are those of the founding articles: at least 2,000 frames in runs of five, low light, high dynamic range,
text, lost packets, twelve call layouts, still and moving pictures, nobody to be recognised.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

import numpy as np

from flows.data.clips import Frames
from flows.data.faults.layouts import LAYOUTS

RUN = 5
_GREY = np.array([0.299, 0.587, 0.114], np.float32)

_SHARES = {
    "low_light": "mean brightness under 60 of 255",
    "highlights": "over 2 % of the pixels at 250 or more",
    "text": "over 2 % of neighbouring pixels differ by more than 100 of 255",
    "lost": "picture differs from the same call without losses",
    "still": "mean change from frame to frame under 1 of 255",
    "moving": "mean change from frame to frame over 3 of 255",
    "flat": "over 10 % of the 8x8 blocks with a deviation under 1 of 255",
}


@dataclass(frozen=True)
class Need:
    """How much of everything a set must have. Shares are of all frames."""

    frames: int = 2_000
    low_light: float = 0.05
    highlights: float = 0.03
    text: float = 0.03
    lost: float = 0.03
    layouts: int = len(LAYOUTS)
    still: float = 0.05
    moving: float = 0.05
    flat: float = 0.05
    people: int = 4
    codecs: int = 2


@dataclass(frozen=True)
class Rule:
    """One row of the report."""

    name: str
    have: float
    need: float
    unit: str
    how: str

    @property
    def ok(self) -> bool:
        """Whether there is enough."""
        return self.have >= self.need


@dataclass(frozen=True)
class Look:
    """What one sequence of five received frames shows."""

    luma: float
    white: float
    edges: float
    motion: float
    flat: float


@dataclass
class Tally:
    """Counts over all sequences; `add` each as it is made."""

    frames: int = 0
    broken_runs: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SHARES, 0))
    layouts: set[str] = field(default_factory=set)
    codecs: set[str] = field(default_factory=set)
    people: set[int] = field(default_factory=set)

    def add(self, frames: Frames, hurt: int, layouts: Iterable[str], codecs: Iterable[str]) -> None:
        """One received sequence, and how many of its frames differ from the same call without losses."""
        seen, count = look(frames), len(frames)
        self.frames += count
        self.broken_runs += count != RUN
        for name, true in (
            ("low_light", seen.luma < 60.0),
            ("highlights", seen.white > 0.02),
            ("text", seen.edges > 0.02),
            ("still", seen.motion < 1.0),
            ("moving", seen.motion > 3.0),
            ("flat", seen.flat > 0.10),
        ):
            self.counts[name] += count * true
        self.counts["lost"] += hurt
        self.layouts.update(layouts)
        self.codecs.update(codecs)


def look(frames: Frames) -> Look:
    """Measure a sequence [n, h, w, 3]."""
    grey = frames.astype(np.float32) @ _GREY
    steps = np.abs(np.diff(grey, axis=2))
    motion = float(np.abs(np.diff(grey, axis=0)).mean()) if len(grey) > 1 else 0.0
    rows, columns = grey.shape[1] // 8 * 8, grey.shape[2] // 8 * 8
    blocks = grey[:, :rows, :columns].reshape(len(grey), rows // 8, 8, columns // 8, 8)
    return Look(
        float(grey.mean()),
        float((grey >= 250.0).mean()),
        float((steps > 100.0).mean()),
        motion,
        float((blocks.std(axis=(2, 4)) < 1.0).mean()),
    )


def judge(tally: Tally, need: Need) -> tuple[Rule, ...]:
    """Every rule with what the set has and what it needs."""
    whole = max(tally.frames, 1)
    shares = [
        Rule(name, tally.counts[name] / whole, getattr(need, name), "share", how) for name, how in _SHARES.items()
    ]
    return (
        Rule("frames", tally.frames, need.frames, "frames", "received frames in the set"),
        Rule("runs", float(tally.broken_runs == 0), 1, "yes", f"all frames are in runs of {RUN} in a row"),
        *shares,
        Rule("layouts", len(tally.layouts), need.layouts, "layouts", "call layouts, one or more runs each"),
        Rule("codecs", len(tally.codecs), need.codecs, "codecs", "x264 and x265"),
        Rule("people", len(tally.people), need.people, "people", "people or scenes that the blocks come from"),
    )


def as_json(rules: Iterable[Rule]) -> list[dict[str, object]]:
    """Rows with `ok`."""
    return [{**asdict(rule), "ok": rule.ok} for rule in rules]


def as_text(rules: Iterable[Rule], facts: dict[str, object]) -> str:
    """The report for people, as Markdown."""
    rows = [
        f"| {rule.name.replace('_', ' ')} | {_number(rule.have, rule.unit)} | {_number(rule.need, rule.unit)} | "
        f"{'yes' if rule.ok else 'MISSED'} | {rule.how} |"
        for rule in rules
    ]
    told = [f"- {name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in facts.items()]
    head = [
        "# Calibration set",
        "",
        *told,
        "",
        "| rule | has | needs | kept | how it is measured |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*head, *rows, ""])


def _number(value: float, unit: str) -> str:
    return f"{value:.1%}" if unit == "share" else f"{value:g}"
