"""Bundles, rollouts with stages, decisions and exposures, reports of devices, alerts.

The newest release of every device class is still under way (five run, three are paused) or, before them, done; one in
nine was rolled back. A rollout for one class alternates with one for every device.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from benchmarks.watching.copying import Row
from benchmarks.watching.fleet_rows import Fleet
from benchmarks.watching.scale import CLASSES, Scale
from contracts.state import bucket

STAGES = (500, 2_500, 10_000)
METRICS = (
    "trial_failures", "silent_devices", "degraded_devices", "driver_error_share", "latency_log_ratio", "quality_loss_db"
)  # fmt: skip
ACTIVE, PAUSED, DRAFTS = len(CLASSES), 3, 4
LOOKS, LOOKS_ACTIVE = 2, 60

BUNDLES, BUNDLE_COLUMNS = (
    "releases.bundles",
    (
        "digest", "release_version", "security_epoch", "length", "build_id", "target_path", "targets", "notes",
        "revoked", "created", "provenance", "created_by",
    ),
)  # fmt: skip
ROLLOUTS, ROLLOUT_COLUMNS = (
    "releases.rollouts",
    (
        "id", "digest", "state", "stage", "selector", "selector_key", "requested", "salt", "soak_s", "min_devices",
        "silent_after_s", "reason", "verdict", "cause", "version", "human_actions", "created_by", "created", "finished",
    ),
)  # fmt: skip
STAGE_TABLE, STAGE_COLUMNS = (
    "releases.rollout_stages",
    ("rollout_id", "index", "basis_points", "entered", "left", "targeted", "fleet"),
)
DECISIONS, DECISION_COLUMNS = (
    "releases.decisions",
    (
        "rollout_id", "at", "stage", "decision", "why", "worst", "alpha_each", "alpha_spent", "code_version", "inputs",
        "readings", "fingerprint",
    ),
)  # fmt: skip
EXPOSURES, EXPOSURE_COLUMNS = (
    "releases.exposures",
    (
        "rollout_id", "device_id", "stratum", "bucket", "stage", "sequence", "failed", "confirmed", "heard", "cause",
        "started", "moved",
    ),
)  # fmt: skip
ITEMS, ITEM_COLUMNS = "releases.feedback_items", ("device_id", "item_id", "received_at")
ALERTS, ALERT_COLUMNS = "releases.alerts", ("kind", "subject", "detail", "created")


def of_class(scale: Scale, release: int) -> int:
    """The index of the class that a release is for."""
    return (scale.releases - 1 - release) % len(CLASSES)


def state(scale: Scale, release: int) -> str:
    """The state of a release's rollout. The newest of every class are under way."""
    age = scale.releases - 1 - release
    if age < ACTIVE:
        return "paused" if age < PAUSED else "running"
    if age < ACTIVE + DRAFTS:
        return "draft"
    return "rolled_back" if release % 9 == 4 else "killed" if release % 50 == 7 else "completed"


def bundles(scale: Scale) -> Iterator[Row]:
    """One bundle a release."""
    for release in range(scale.releases):
        digest = scale.digest(release)
        told = {"run": f"run-{release}", "mlflow_run": scale.name("mlflow", release, 32), "gate_report": ""}
        yield (
            digest, scale.version(release), 1, 900_000 + release, scale.build(release), f"bundles/{digest[:32]}.elb",
            (CLASSES[of_class(scale, release)],), "Retrained on the newest clusters.", False,
            f"{scale.created(release):.1f}", json.dumps({**told, "sources": {"corpus": digest[:64]}}), "service:loop",
        )  # fmt: skip


def rollouts(scale: Scale) -> Iterator[Row]:
    """One rollout a release."""
    for release in range(scale.releases):
        word = state(scale, release)
        selector = {"device_class": [CLASSES[of_class(scale, release)]]}
        created = scale.created(release)
        ended = word in ("completed", "rolled_back", "killed")
        stage = {"draft": 0, "rolled_back": 1, "running": 2 if release % 2 else 1}.get(word, 1)
        stage = 2 if word == "completed" else stage
        verdict = {"completed": "promote", "rolled_back": "rollback", "running": "continue"}.get(word, "")
        cause = {"rolled_back": "latency_log_ratio in all: harm", "paused": "no verdict within its patience"}
        yield (
            scale.rollout(release), scale.digest(release), word, stage, json.dumps(selector),
            json.dumps(selector, sort_keys=True, separators=(",", ":")), STAGES, scale.name("salt", release, 16),
            14_400.0, 5, 172_800.0, "", verdict, cause.get(word, ""), 4 + stage, int(release % 13 == 0),
            "service:loop", f"{created:.1f}", f"{created + 40_000:.1f}" if ended else None,
        )  # fmt: skip


def stages(scale: Scale, sizes: Sequence[int]) -> Iterator[Row]:
    """The stages of every rollout that began; `sizes` are the devices by class."""
    for release in range(scale.releases):
        word = state(scale, release)
        if word == "draft":
            continue
        name, created = CLASSES[of_class(scale, release)], scale.created(release)
        reached = 2 if word == "completed" or (word == "running" and release % 2) else 1
        size = sizes[of_class(scale, release)]
        for index, points in enumerate(STAGES):
            entered = f"{created + 9_000 * index:.1f}" if index <= reached else None
            left = f"{created + 9_000 * (index + 1):.1f}" if index < reached or word == "completed" else None
            meant = json.dumps({name: size * points // 10_000}) if index <= reached else "{}"
            fleet = json.dumps({name: size}) if index <= reached else "{}"
            yield scale.rollout(release), index, points, entered, left, meant, fleet


def decisions(scale: Scale) -> Iterator[Row]:
    """Looks with their readings: a few of finished rollouts, many of those under way."""
    dice = scale.dice("readings")
    for release in range(scale.releases):
        word = state(scale, release)
        if word == "draft":
            continue
        created, looks = scale.created(release), LOOKS_ACTIVE if word in ("running", "paused") else LOOKS
        strata = (CLASSES[of_class(scale, release)], "all")
        for look in range(looks):
            numbers = dice.normal(0.0, 0.03, len(METRICS) * len(strata)).round(4).tolist()
            readings = [
                _reading(metric, stratum, numbers[place], 40 + 10 * look)
                for place, (metric, stratum) in enumerate((m, s) for m in METRICS for s in strata)
            ]
            decision = "continue" if look < looks - 1 else "promote"
            yield (
                scale.rollout(release), f"{created + 500 * look:.1f}", min(2, look), decision, "within every margin",
                "", 0.004, 0.01, "1", "{}", json.dumps(readings), scale.name(f"look-{release}", look, 64),
            )  # fmt: skip


def exposures(fleet: Fleet) -> Iterator[Row]:
    """One row a device, in the rollout of what it runs, or in the newest of its class."""
    scale = fleet.scale
    newest = scale.releases - 1 - fleet.classes
    release = np.where(fleet.release < 0, newest, fleet.release)
    chance = scale.dice("exposures").random(scale.devices)
    order = np.argsort(release, kind="stable")
    salts = {int(one): scale.name("salt", int(one), 16) for one in np.unique(release)}
    columns = (order.tolist(), release[order].tolist(), fleet.classes[order].tolist(), chance[order].tolist())
    for place, number, index, luck in zip(*columns, strict=True):
        name = fleet.ids[place]
        failed = luck < 0.01
        yield (
            scale.rollout(number), name, CLASSES[index], bucket(salts[number], name),
            "rolled_back" if failed else "confirmed" if luck < 0.95 else "installed", 9, failed,
            not failed and luck < 0.95, luck < 0.9, "crash_loop" if failed else "",
            f"{scale.created(number) + 20_000 * luck:.1f}", luck > 0.998,
        )  # fmt: skip


def items(fleet: Fleet, each: int = 20, share: int = 50) -> Iterator[Row]:
    """Natural keys of the newest reports: `each` of every `share`th device."""
    heard: NDArray[np.float64] = fleet.heard
    for place in range(0, fleet.scale.devices, share):
        at = float(heard[place])
        for report in range(each):
            yield fleet.ids[place], f"health/{report}", _moment(at - 3_600 * report)


def alerts(scale: Scale) -> Iterator[Row]:
    """What was rolled back or paused."""
    for release in range(scale.releases):
        word = state(scale, release)
        if word in ("rolled_back", "paused"):
            detail = "latency_log_ratio in all: harm" if word == "rolled_back" else "no verdict within its patience"
            kind = f"rollout.{word.replace('_', '-')}"
            yield kind, f"rollout:{scale.rollout(release)}", detail, f"{scale.created(release) + 30_000:.1f}"


def _reading(metric: str, stratum: str, estimate: float, devices: int) -> dict[str, object]:
    return {
        "metric": metric, "stratum": stratum, "canary_devices": devices, "control_devices": 3 * devices,
        "estimate": estimate, "low": estimate - 0.02, "high": estimate + 0.02, "margin": 0.1, "finding": "safe",
        "excess": 0.0,
    }  # fmt: skip


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
