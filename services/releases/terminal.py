"""How `edgeloop release` shows things: tables for people, JSON for scripts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, Group
from rich.markdown import Markdown
from rich.markup import escape
from rich.table import Column, Table

from contracts.wire.releases import RolloutState

Json = dict[str, Any]  # Any: JSON
POLL_S = 2.0
COLOURS = {
    RolloutState.RUNNING: "cyan",
    RolloutState.COMPLETED: "green",
    RolloutState.PAUSED: "yellow",
    RolloutState.ROLLED_BACK: "red",
    RolloutState.KILLED: "red",
}


def console() -> Console:
    """Where results go."""
    return Console()


def print_json(document: Any) -> None:  # Any: JSON
    """Print a document for scripts."""
    print(json.dumps(document, indent=2))


def rollout_table(items: list[Json]) -> Table:
    """Rollouts, a line each."""
    table = Table(Column("rollout", no_wrap=True), "release", "state", "stage", "devices", "failed", "verdict", "since")
    for item in items:
        stage = item["stages"][item["stage"]]
        table.add_row(
            item["id"],
            item["release_version"],
            _coloured(item["state"]),
            f"{item['stage'] + 1}/{len(item['stages'])} ({stage['basis_points'] / 100:g} %)",
            str(stage["installed"]),
            str(stage["failed"]),
            item["verdict"] or "-",
            _moment(item["created"]),
        )
    return table


def bundle_table(items: list[Json]) -> Table:
    """Bundles, a line each."""
    table = Table(Column("digest", no_wrap=True), "release", "epoch", "bytes", "targets", "since")
    for item in items:
        targets = ", ".join(item["targets"])
        row = (
            item["digest"][:16],
            item["release_version"],
            str(item["security_epoch"]),
            f"{item['length']:,}",
            targets,
        )
        table.add_row(*row, _moment(item["created"]))
    return table


def bundle_report(item: Json) -> Group:
    """One bundle: what it is, where it comes from, its release notes."""
    facts = Table(show_header=False, box=None)
    for name in ("digest", "release_version", "security_epoch", "length", "build_id", "created_by", "revoked"):
        facts.add_row(name, str(item[name]))
    provenance = item["provenance"]
    for name in ("run", "mlflow_run", "gate_report"):
        facts.add_row(name, provenance[name] or "-")
    for name, digest in sorted(provenance["sources"].items()):
        facts.add_row(f"source {name}", digest)
    return Group(facts, Markdown(item["notes"] or "*no release notes*", hyperlinks=False))


def layer_table(items: list[Json]) -> Table:
    """Layers, a line for each part that is held, and one for what is free."""
    table = Table("layer", "rollout", "from", "to", "share")
    for item in items:
        for claim in item["claims"]:
            share = f"{(claim['high'] - claim['low']) / 100:g} %"
            table.add_row(item["name"], claim["rollout"], str(claim["low"]), str(claim["high"]), share)
        table.add_row(item["name"], "free", "", "", f"{item['free'] / 100:g} %")
    return table


def rollout_report(item: Json) -> Group:
    """One rollout: headline, stages, newest intervals."""
    headline = f"{item['id']}  release {item['release_version']}  {_coloured(item['state'])}  {item['cause']}"
    parts: list[Any] = [headline, *_audience(item), _stages(item)]
    newest = max((metric["at"] for metric in item["metrics"]), default=None)
    metrics = [metric for metric in item["metrics"] if metric["at"] == newest]
    if metrics:
        parts.append(_metrics(metrics))
    return Group(*parts)


def preflight_report(found: Json) -> Group:
    """Who a rollout would reach."""
    counts = f"{found['matching']} of {found['enrolled']} devices match: {found['already']} run it already, "
    counts += f"{found['on_another_bundle']} another bundle, {found['on_no_bundle']} none of ours"
    table = Table("stage", "devices")
    for stage in found["stages"]:
        table.add_row(f"{stage['basis_points'] / 100:g} %", str(stage["devices"]))
    lines = [f"left out: {count}, {escape(reason)}" for reason, count in found["excluded"].items()]
    if found["silent"]:
        lines.append(f"silent: {found['silent']} of them were not heard for as long as the rollout would wait")
    if found["supersedes"]:
        lines.append(f"it would end the running rollout {found['supersedes']}")
    lines += [f"[red]cannot start[/] {escape(words)}" for words in found["obstacles"]]
    return Group(counts, table, *lines)


def wait_for_end(fetch: Callable[[], Json], quiet: bool) -> Json:
    """Poll until the rollout ends or pauses, saying how far it is."""
    with Console(stderr=True, quiet=quiet).status("waiting") as status:
        while True:
            found = fetch()
            if found["state"] not in (RolloutState.RUNNING, RolloutState.DRAFT, RolloutState.APPROVED):
                return found
            stage = found["stages"][found["stage"]]
            progress = f"{stage['installed']} of {stage['targeted']} devices"
            status.update(f"stage {found['stage'] + 1} of {len(found['stages'])}: {progress}")
            time.sleep(POLL_S)


def _audience(item: Json) -> list[str]:
    lines = [f"rule: {escape(item['rule'])}"] if item["rule"] else []
    if item["layer"]:
        held = item["layer_slice"]
        lines.append(f"layer: {item['layer']}" + (f", buckets {held[0]} to {held[1]}" if held else ""))
    if item["approved_by"]:
        lines.append(f"made by {item['created_by']}, approved by {item['approved_by']}")
    return lines


def _stages(item: Json) -> Table:
    table = Table("stage", "exposed", "entered", "left", "targeted", "installed", "confirmed", "failed", "moved")
    for number, stage in enumerate(item["stages"], start=1):
        table.add_row(
            str(number),
            f"{stage['basis_points'] / 100:g} %",
            _moment(stage["entered"]),
            _moment(stage["left"]),
            *(str(stage[name]) for name in ("targeted", "installed", "confirmed", "failed", "moved")),
        )
    return table


def _metrics(metrics: list[Json]) -> Table:
    table = Table("metric", "where", "canary", "control", "low", "estimate", "high", "margin", "says")
    for metric in metrics:
        numbers = (f"{metric[name]:.4g}" for name in ("low", "estimate", "high", "margin"))
        who = (str(metric["canary_devices"]), str(metric["control_devices"]))
        table.add_row(metric["metric"], metric["stratum"], *who, *numbers, metric["verdict"])
    return table


def _coloured(state: str) -> str:
    colour = COLOURS.get(RolloutState(state))
    return f"[{colour}]{state}[/]" if colour else state


def _moment(at: float | None) -> str:
    return "-" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
