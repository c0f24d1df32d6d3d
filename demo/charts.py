"""Charts of the demo's report as SVG text: drift over days, fleet by release, quality before and after, time."""

from __future__ import annotations

import io

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from demo.story import Story

_INK = "#1f2937"
_HEALTHY, _CHANGED = "#2a7f9e", "#d1495b"
_PALETTE = ("#9aa5b1", "#2a7f9e", "#edae49", "#d1495b", "#66a182")
plt.rcParams.update(
    {
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": _INK,
        "svg.hashsalt": "edgeloop",
    }
)


def drift_chart(story: Story, threshold: float) -> str:
    """Sigma-equivalent of every cohort over simulated days, with the alarm threshold."""
    figure, axes = _new(7.2, 2.8)
    days = sorted({p.day for p in story.drift})
    first = days[0] if days else 0
    for cohort in sorted({p.cohort for p in story.drift}):
        points = sorted((p for p in story.drift if p.cohort == cohort and p.z is not None), key=lambda p: p.day)
        if points:
            colour = _CHANGED if points[-1].changed else _HEALTHY
            axes.plot(
                [p.day - first for p in points],
                [min(p.z or 0.0, 40.0) for p in points],
                "o-",
                color=colour,
                lw=1.4,
                ms=3.5,
            )
            axes.annotate(
                cohort,
                (points[-1].day - first, min(points[-1].z or 0.0, 40.0)),
                xytext=(5, 0),
                textcoords="offset points",
                fontsize=7,
                color=colour,
            )
    axes.axhline(threshold, color=_INK, lw=0.8, ls="--")
    axes.annotate(
        f"alarm above {threshold:g} sigma",
        (0, threshold),
        xytext=(2, 3),
        textcoords="offset points",
        fontsize=7,
    )
    axes.set_xlabel("simulated day")
    axes.set_ylabel("sigma-equivalent (cut at 40)")
    axes.margins(x=0.12)
    return _svg(figure)


def fleet_chart(story: Story) -> str:
    """Devices by the release that they run, over real seconds."""
    figure, axes = _new(7.2, 2.6)
    names = sorted({name for point in story.fleet for name in point.running})
    if story.fleet and names:
        times = [p.at_s for p in story.fleet]
        rows = [[p.running.get(name, 0) for p in story.fleet] for name in names]
        axes.stackplot(times, rows, labels=names, colors=_PALETTE[: len(names)], step="post", alpha=0.9)
        axes.legend(loc="upper left", frameon=False, fontsize=8)
    axes.set_xlabel("real seconds since the start")
    axes.set_ylabel("devices")
    return _svg(figure)


def quality_chart(story: Story) -> str:
    """PSNR of held-out recordings: interpolation, old model, new model."""
    figure, axes = _new(7.2, 2.8)
    rows = story.quality
    for offset, (label, colour, pick) in enumerate(
        (("interpolation", _PALETTE[0], 0), ("old model", _PALETTE[1], 1), ("new model", _PALETTE[2], 2))
    ):
        values = [(r.interpolation, r.old, r.new)[pick] for r in rows]
        positions = [i + 0.27 * (offset - 1) for i in range(len(rows))]
        axes.bar(positions, values, width=0.25, color=colour, label=label)
    axes.set_xticks(range(len(rows)), [f"{r.clip}\n{r.condition}" for r in rows], fontsize=7)
    if rows:
        axes.set_ylim(min(r.interpolation for r in rows) - 2, max(r.new for r in rows) + 1.5)
        axes.legend(loc="upper right", frameon=False, fontsize=8, ncols=3)
    axes.set_ylabel("PSNR, dB (luma)")
    return _svg(figure)


def time_chart(story: Story) -> str:
    """Every step as a bar over real time."""
    figure, axes = _new(7.2, 0.6 + 0.26 * max(1, len(story.steps)))
    for row, step in enumerate(reversed(story.steps)):
        axes.barh(row, max(step.seconds, 0.5), left=step.began_s, color=_HEALTHY, height=0.6)
        axes.annotate(
            f"{step.seconds:.0f} s",
            (step.began_s + step.seconds, row),
            xytext=(3, -3),
            textcoords="offset points",
            fontsize=7,
        )
    axes.set_yticks(range(len(story.steps)), [step.name for step in reversed(story.steps)], fontsize=8)
    axes.set_xlabel("real seconds since the start")
    return _svg(figure)


def _new(width: float, height: float) -> tuple[Figure, Axes]:
    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    return figure, axes


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]
