"""What `edgeloop agent status` shows, read from a device's folder without disturbing the agent."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from edge_agent.enrol import load_identity
from edge_agent.errors import ConfigError
from edge_agent.limits import LIMITS
from edge_agent.session import STATUS_FILE
from edge_agent.slot_store import FILE, read_slots


def device_report(folder: Path) -> dict[str, object]:
    """Return a device's identity, slots, waiting messages and last status. Raises ConfigError."""
    if not folder.is_dir():
        raise ConfigError(f"no device state at {folder}; give the --state-dir of an agent")
    identity = load_identity(folder)
    slots = read_slots(folder / FILE)
    return {
        "device_id": identity.device_id if identity else "",
        "running": slots.running.version or "built-in",
        "slot_a": _slot(asdict(slots.a)),
        "slot_b": _slot(asdict(slots.b)),
        "security_floor": slots.security_floor,
        "rollbacks": [f"{r.digest[:12]} {r.cause} {r.detail}".strip() for r in slots.rollbacks],
        "waiting": sum(1 for _ in (folder / "outbox").glob("*.*")) if (folder / "outbox").is_dir() else 0,
        "last": _last(folder / STATUS_FILE),
    }


def report_table(report: dict[str, object]) -> Table:
    """Return the report as a table of two columns; nested values are flattened."""
    table = Table(show_header=False, box=None)
    for name, value in _flat(report):
        table.add_row(name, value)
    return table


def _flat(report: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:  # Any: JSON values
    rows: list[tuple[str, str]] = []
    for name, value in report.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            rows.append((f"{prefix}{name}", "; ".join(str(item) for item in value) or "none"))
        else:
            rows.append((f"{prefix}{name}", str(value)))
    return rows


def _slot(slot: dict[str, Any]) -> str:  # Any: fields of Slot
    words = (str(slot["state"]), slot["version"], slot["digest"][:12], slot["cause"])
    return " ".join(word for word in words if word)


def _last(path: Path) -> dict[str, object]:
    try:
        raw = json.loads(path.read_bytes()[: LIMITS.identity_bytes])
    except (OSError, ValueError):
        return {}
    return raw if isinstance(raw, dict) else {}
