"""The gate's test bench: every device class, candidate and production side by side on the same device.

What was measured before (same bundle, class, program, frames and lab) is taken from the table; what is new is written
there at once, so a killed gate goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import structlog
from sqlalchemy.dialects.postgresql import insert

from contracts.bundle import Bundle
from contracts.lab import LabClient, LabInfo
from services.builds import evaluation, measuring
from services.builds.measurements import Measurement
from services.builds.models import EvaluationSetRow, MeasurementRow
from services.builds.settings import builds_settings
from services.kit.database import transaction
from services.kit.storage import store

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Item:
    """A bundle to put on the bench."""

    digest: str
    bundle_key: str


@dataclass(frozen=True)
class BenchResult:
    """Measurements by digest, and what each lab said of itself by device class."""

    rows: dict[str, tuple[Measurement, ...]]
    labs: dict[str, Any]  # Any: JSON


def clips_of(sets: Sequence[EvaluationSetRow]) -> list[measuring.Clip]:
    """The evaluation sets as things to play; frames are read when their turn comes."""
    return [_clip(row) for row in sets]


def run(items: Sequence[Item], targets: Sequence[str], clips: Sequence[measuring.Clip]) -> BenchResult:
    """Measure every item on every device class. Raises LabError when a device cannot be had or fails."""
    rows: dict[str, list[Measurement]] = {item.digest: [] for item in items}
    labs: dict[str, Any] = {}
    for target in targets:
        with ExitStack() as stack:
            settings = builds_settings()
            command = settings.lab_arguments(target)
            lab = stack.enter_context(LabClient(command, timeout_s=settings.lab_timeout_s))
            labs[target] = asdict(lab.info)
            for item in items:
                rows[item.digest] += _measure(lab, item, target, clips)
    return BenchResult({digest: tuple(found) for digest, found in rows.items()}, labs)


def _measure(lab: LabClient, item: Item, target: str, clips: Sequence[measuring.Clip]) -> list[Measurement]:
    path = store().path(item.bundle_key)
    bundle = Bundle.open(path)
    if target not in bundle.targets:
        return []
    found, loaded = [], False
    for play in measuring.plan(bundle, target, clips):
        key = (item.digest, target, play.program, play.clip.frames_key, _identity(lab.info))
        known = _known(key)
        if known is None:
            if not loaded:
                lab.load(path)
                loaded = True
            known = measuring.measure(lab, bundle, target, play)
            _keep(key, known)
            log.info(
                "measured", digest=item.digest[:12], target=target, program=play.program, clip=play.clip.frames_key
            )
        found.append(known)
    return found


def _known(key: tuple[str, ...]) -> Measurement | None:
    with transaction() as session:
        row = session.get(MeasurementRow, key)
    return None if row is None else Measurement.parse(row.result)


def _keep(key: tuple[str, ...], measurement: Measurement) -> None:
    digest, target, program, frames_key, lab = key
    values = {"digest": digest, "target": target, "program": program, "frames_key": frames_key, "lab": lab}
    with transaction() as session:
        session.execute(insert(MeasurementRow).values(**values, result=measurement.document()).on_conflict_do_nothing())


def _identity(info: LabInfo) -> str:
    """Everything about a lab that may change a measurement."""
    return "/".join((str(info.protocol), info.device_class, info.engine, info.driver, info.array_model))


def _clip(row: EvaluationSetRow) -> measuring.Clip:
    key = row.object_key
    return measuring.Clip(row.id, row.id, row.condition, f"{row.height}x{row.width}", lambda: _frames(key))


@lru_cache(maxsize=2)
def _frames(object_key: str) -> evaluation.Frames:
    return evaluation.parse(store().get(object_key))
