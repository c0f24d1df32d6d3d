"""A device's report in Prometheus's text format, for the textfile collector of its node exporter.

The agent opens no port: `edgeloop agent metrics --state-dir DIR --output FILE` writes the file, by a timer. Only
numbers leave; versions and causes are labels of `..._info`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AgentMetric:
    """A metric: its name, what it says, its type, and the key of the device's report that holds it."""

    name: str
    help: str
    kind: str
    key: str


METRICS = (
    AgentMetric("edgeloop_agent_info", "Running version, slot and engine state.", "gauge", ""),
    AgentMetric("edgeloop_agent_status_timestamp_seconds", "When the agent last wrote its status.", "gauge", "written"),
    AgentMetric("edgeloop_agent_frames_total", "Frames shown since the agent started.", "counter", "frames"),
    AgentMetric("edgeloop_agent_outbox_messages", "Messages that wait to be sent.", "gauge", "waiting"),
    AgentMetric("edgeloop_agent_confirmed_total", "Bundles confirmed by health.", "counter", "confirmed"),
    AgentMetric("edgeloop_agent_rolled_back_total", "Bundles rolled back.", "counter", "rolled_back"),
    AgentMetric("edgeloop_agent_killed", "1 while the kill switch holds.", "gauge", "killed"),
    AgentMetric(
        "edgeloop_agent_unverified_frames_total",
        "Frames run from bytes not verified.",
        "counter",
        "unverified_bytes_run",
    ),
)


def exposition(report: Mapping[str, Any]) -> str:  # Any: JSON values
    """The text for a report of `edge_agent.report`; a value that the report lacks is left out."""
    last: Mapping[str, Any] = report.get("last") or {}  # Any: JSON values
    lines: list[str] = []
    for metric in METRICS:
        value = 1 if not metric.key else last.get(metric.key, report.get(metric.key))
        if isinstance(value, bool | int | float):
            labels = "" if metric.key else _labels(report, last)
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
            lines.append(f"{metric.name}{labels} {float(value):.17g}")
    return "\n".join(lines) + "\n"


def _labels(report: Mapping[str, Any], last: Mapping[str, Any]) -> str:  # Any: JSON values
    values = {
        "version": report.get("running", ""),
        "slot": last.get("slot_state", ""),
        "engine": last.get("engine_state", ""),
    }
    return "{" + ",".join(f'{name}="{_escaped(str(value))}"' for name, value in values.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
