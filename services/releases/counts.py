"""How many devices run what, and how far those of a rollout came, without walking over the devices.

The database adds a row to `fleet_counts` and `exposure_counts` with every change (migration `0026_counts`), in the
transaction of the change; the sum of the rows is exact for whoever reads. Nobody updates a row that another one needs,
so devices that report at once never wait for each other. `fold` puts many rows into few.

Invariants: a reader sees either the rows before a fold or the one after it; folding changes no sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Select, func, select, text
from sqlalchemy.orm import Session

from services.releases.limits import COUNTS
from services.releases.models import BundleRow, ExposureCount, FleetCount

DEVICES = func.sum(FleetCount.devices)
FOLD_FLEET = text("""
WITH gone AS (DELETE FROM releases.fleet_counts RETURNING running_digest, device_class, devices)
INSERT INTO releases.fleet_counts (running_digest, device_class, devices)
SELECT running_digest, device_class, sum(devices) FROM gone GROUP BY 1, 2 HAVING sum(devices) <> 0
""")
FOLD_EXPOSURES = text("""
WITH many AS (SELECT rollout_id FROM releases.exposure_counts GROUP BY rollout_id HAVING count(*) > :rows),
gone AS (DELETE FROM releases.exposure_counts USING many WHERE exposure_counts.rollout_id = many.rollout_id
         RETURNING exposure_counts.rollout_id, below, installed, confirmed, failed, moved)
INSERT INTO releases.exposure_counts (rollout_id, below, installed, confirmed, failed, moved)
SELECT rollout_id, below, sum(installed), sum(confirmed), sum(failed), sum(moved) FROM gone GROUP BY 1, 2
""")


@dataclass(frozen=True)
class StageCounts:
    """Devices of a stage: who began, who confirmed, who failed, whose tags took them out before they failed."""

    installed: int = 0
    confirmed: int = 0
    failed: int = 0
    moved: int = 0

    def __add__(self, other: StageCounts) -> StageCounts:
        return StageCounts(
            self.installed + other.installed,
            self.confirmed + other.confirmed,
            self.failed + other.failed,
            self.moved + other.moved,
        )


@dataclass(frozen=True)
class Running:
    """So many devices of a class run a bundle; `version` is empty for one that was not released here."""

    digest: str
    version: str
    device_class: str
    devices: int


@dataclass(frozen=True)
class Progress:
    """Counts of one rollout by the stage that added the devices."""

    added: Mapping[int, StageCounts]

    def up_to(self, basis_points: int) -> StageCounts:
        """How the devices of a stage came along: those in buckets below `basis_points`."""
        return sum((found for below, found in self.added.items() if below <= basis_points), StageCounts())


def fleet(session: Session) -> list[Running]:
    """What the fleet runs, the largest count first, at most `COUNTS.rows`; and one row more when there are more."""
    query = (
        select(FleetCount.running_digest, func.coalesce(func.max(BundleRow.release_version), ""))
        .add_columns(FleetCount.device_class, DEVICES)
        .outerjoin(BundleRow, BundleRow.digest == FleetCount.running_digest)
        .group_by(FleetCount.running_digest, FleetCount.device_class)
        .having(DEVICES > 0)
        .order_by(DEVICES.desc(), FleetCount.running_digest, FleetCount.device_class)
        .limit(COUNTS.rows + 1)
    )
    return [Running(digest, version, name, int(count)) for digest, version, name, count in session.execute(query)]


def running_like(beginning: str) -> Select[str]:
    """Digests that begin so and that a device runs."""
    query = select(FleetCount.running_digest).where(FleetCount.running_digest.startswith(beginning, autoescape=True))
    return query.group_by(FleetCount.running_digest).having(DEVICES > 0)


def progress(session: Session, rollout_ids: Iterable[str]) -> dict[str, Progress]:
    """Of each rollout, how far its devices came; one query for all of them."""
    ids = list(rollout_ids)
    if not ids:
        return {}
    columns = (ExposureCount.installed, ExposureCount.confirmed, ExposureCount.failed, ExposureCount.moved)
    query = (
        select(ExposureCount.rollout_id, ExposureCount.below, *(func.sum(column) for column in columns))
        .where(ExposureCount.rollout_id.in_(ids))
        .group_by(ExposureCount.rollout_id, ExposureCount.below)
    )
    added: dict[str, dict[int, StageCounts]] = defaultdict(dict)
    for rollout_id, below, *counts in session.execute(query):
        added[rollout_id][below] = StageCounts(*(int(count) for count in counts))
    return {one: Progress(added.get(one, {})) for one in ids}


def fold(session: Session) -> None:
    """Put the rows of each count into one. Whoever counts at the same time adds to it afterwards."""
    if (session.scalar(select(func.count()).select_from(FleetCount)) or 0) > COUNTS.fold_rows:
        session.execute(FOLD_FLEET)
    session.execute(FOLD_EXPOSURES, {"rows": COUNTS.fold_rows})
