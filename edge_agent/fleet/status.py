"""What a fleet process shows of itself: one JSON file, replaced atomically, for the live view."""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from contracts.clock import day_of
from contracts.wire import InstallStage
from edge_agent.fleet.device import FleetDevice

PAGE_BYTES = resource.getpagesize()
SUMMED = (
    "frames",
    "observed",
    "upscaled",
    "killed_frames",
    "plain_frames",
    "confirmed",
    "rolled_back",
    "sync_errors",
    "segments",
    "reports",
    "segments_suppressed",
    "segments_throttled",
    "days_too_short",
    "outbox",
    "bundles_verified",
    "bundles_loaded",
    "unverified_bytes_run",
)


def fleet_status(devices: Sequence[FleetDevice], now: float, skipped: int, behind_s: float) -> dict[str, object]:
    """Add up the devices. `behind_s` is simulated seconds that the slowest device lags."""
    sums: Counter[str] = Counter(dict.fromkeys(SUMMED, 0))
    bundles: Counter[str] = Counter()
    stages: Counter[str] = Counter(dict.fromkeys((stage.value for stage in InstallStage), 0))
    causes: Counter[str] = Counter()
    groups: dict[str, Counter[str]] = {}
    for device in devices:
        group = groups.setdefault(device.group.name, Counter(devices=0))
        group["devices"] += 1
        if device.agent is None:
            continue
        status = device.agent.status()
        for name in SUMMED:
            sums[name] += int(str(status[name]))
        stage = InstallStage.TRIAL.value if device.agent.on_trial else InstallStage.CONFIRMED.value
        bundles[str(status["running_digest"])] += 1
        stages[stage] += 1
        group["joined"] += 1
        group[f"on {str(status['running_digest'])[:12]}"] += 1
        causes.update(device.agent.causes)
    return {
        "at": now,
        "day": day_of(now),
        "devices": len(devices),
        "joined": sum(device.agent is not None for device in devices),
        "by_bundle": dict(bundles),
        "versions": _versions(devices),
        "by_stage": {stage: count for stage, count in stages.items() if count},
        "by_group": {name: dict(counts) for name, counts in groups.items()},
        "causes": dict(causes),
        "frames_skipped": skipped,
        "behind_s": round(behind_s, 1),
        "rss_mb": round(resident_bytes() / 1e6, 1),
        "last_error": next((device.error for device in devices if device.error), ""),
        **sums,
    }


def _versions(devices: Sequence[FleetDevice]) -> dict[str, str]:
    playing = (device.agent.playback for device in devices if device.agent is not None)
    return {playback.digest: playback.version for playback in playing}


def resident_bytes() -> int:
    """Return the memory that this process holds now (its peak where the system does not tell)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
