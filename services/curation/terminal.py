"""How `edgeloop curate` shows a plan and a cluster to people."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Column, Table

Json = dict[str, Any]  # Any: JSON
MEMBERS = 20
COLOURS = {"covered": "green", "partial": "yellow", "uncovered": "red"}


def plan_report(run: Json, clusters: list[Json]) -> Group:
    """A run in a sentence or two, and its clusters."""
    lines = [
        f"run {run['id']}: {run['segments']} segments ({run['distinct_segments']} distinct) in {run['clusters']} "
        f"clusters, {run['noise']} alone; eps {run['eps']:.4g} ({run['eps_source']})",
        f"would keep {run['kept']} and drop {run['segments'] - run['kept']}; nothing was changed",
    ]
    if run["split"]:
        lines.append(f"the diameter cap cut {run['split']} clusters more out of chains")
    if run["guarded"]:
        lines.append(f"[yellow]kept more than the rule says for {', '.join(run['guarded'])}[/]")
    if run["other_embeddings"]:
        lines.append(f"{run['other_embeddings']} segments of other embeddings were left out")
    if run["base_run"]:
        lines.append(f"{run['inserted']} segments were added to run {run['base_run']} and those since")
    if run["kept"] < run["segments"]:
        lines.append(f"to let go of the rest: edgeloop curate apply {run['id']} --digest {run['digest']}")
    table = Table(Column("cluster", no_wrap=True), "members", "radius", "mean loss, dB", "training", "mostly")
    for item in clusters:
        numbers = (str(item["members"]), f"{item['radius']:.3f}", f"{item['score_mean']:.2f}")
        table.add_row(item["id"], *numbers, _coverage(item), _mostly(item["cohorts"]))
    hidden = run["clusters"] - len(clusters)
    return Group(*lines, table, *([f"and {hidden} clusters more"] if hidden > 0 else []))


def applied_report(run: Json) -> str:
    """What an applied plan let go."""
    return f"run {run['id']}: {run['dropped']} segments will leave with the window, {run['kept']} stay"


def cluster_report(item: Json) -> Group:
    """One cluster with its hardest members."""
    table = Table(Column("segment", no_wrap=True), "cohort", "loss, dB", "stays")
    for member in item["listed"][:MEMBERS]:
        why = "medoid" if member["segment_id"] == item["medoid_id"] else "yes" if member["kept"] else ""
        table.add_row(member["segment_id"], member["cohort"], f"{member['score_mean']:.2f}", why)
    cohorts = ", ".join(f"{name} {count}" for name, count in _ranked(item["cohorts"]))
    return Group(
        f"cluster {item['id']}: {item['members']} members within {item['radius']:.3f} of {item['medoid_id']}, "
        f"mean loss {item['score_mean']:.2f} dB",
        f"cohorts: {cohorts}",
        f"training: {_coverage(item)}",
        table,
        *([f"and {item['members'] - MEMBERS} members more"] if item["members"] > MEMBERS else []),
    )


def _coverage(item: Json) -> str:
    found = item["coverage"]
    if found is None:
        return "not compared"
    interval = f"{100 * found['share']:.0f} % (95 %: {100 * found['low']:.0f} to {100 * found['high']:.0f})"
    return f"[{COLOURS[found['state']]}]{found['state']}[/] {interval}"


def _mostly(cohorts: dict[str, int]) -> str:
    ranked = _ranked(cohorts)
    return f"{ranked[0][0]} ({ranked[0][1]})" if ranked else ""


def _ranked(cohorts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(cohorts.items(), key=lambda pair: (-pair[1], pair[0]))
