"""Fill an empty platform with a year of a large fleet: `python -m benchmarks.watching.seed --help`.

Rows go by COPY into the real tables of a migrated database (`EDGELOOP_DATABASE_URL`), last polls into Redis, one
compiled bundle into the object store. The same devices, releases, days, seed and moment give the same rows. Foreign
keys of the largest tables hold by construction and are not asked row by row, which needs the database's superuser; the
triggers that count work as they always do.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import redis
from psycopg import sql
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.watching import build_rows, curation_rows, drift_rows, fleet_rows, people_rows, release_rows
from benchmarks.watching.copying import Row, copy
from benchmarks.watching.fleet_rows import Fleet
from benchmarks.watching.scale import CLASSES, Scale
from services.kit.settings import settings
from services.releases.seen import SEEN_KEY

Tell = Callable[[float, str], None]
SEEN_DAYS, SEEN_BLOCK = 7, 20_000
TABLES = 0.9  # of the whole
FOREIGN = (
    "releases.exposures",
    "releases.rollout_stages",
    "releases.decisions",
    "releases.feedback_items",
    "curation.members",
)


class NotEmpty(RuntimeError):
    """The database has devices or rollouts already."""


@dataclass(frozen=True)
class Part:
    """A table, its columns, its rows, and about how many there will be."""

    table: str
    columns: Sequence[str]
    rows: Iterable[Row]
    about: int


def parts(scale: Scale) -> list[Part]:
    """Everything that is seeded, in an order in which what is named comes first."""
    fleet, cohort_days = Fleet(scale), scale.days * len(scale.cohorts)
    sizes = [int((fleet.classes == place).sum()) for place in range(len(CLASSES))]
    f, r, d, c, b, p = fleet_rows, release_rows, drift_rows, curation_rows, build_rows, people_rows
    return [
        Part(f.TABLE, f.COLUMNS, f.devices(fleet), scale.devices),
        Part(f.TOKENS, f.TOKEN_COLUMNS, f.tokens(fleet), scale.devices),
        Part(r.BUNDLES, r.BUNDLE_COLUMNS, r.bundles(scale), scale.releases),
        Part(r.ROLLOUTS, r.ROLLOUT_COLUMNS, r.rollouts(scale), scale.releases),
        Part(r.STAGE_TABLE, r.STAGE_COLUMNS, r.stages(scale, sizes), 3 * scale.releases),
        Part(r.DECISIONS, r.DECISION_COLUMNS, r.decisions(scale), r.LOOKS * scale.releases),
        Part(r.EXPOSURES, r.EXPOSURE_COLUMNS, r.exposures(fleet), scale.devices),
        Part(r.ITEMS, r.ITEM_COLUMNS, r.items(fleet), 2 * scale.devices // 5),
        Part(r.ALERTS, r.ALERT_COLUMNS, r.alerts(scale), scale.releases // 9),
        Part(d.OBSERVERS, d.OBSERVER_COLUMNS, d.observers(scale), 2),
        Part(d.DAYS, d.DAY_COLUMNS, d.cohort_days(scale), cohort_days),
        Part(d.VERDICTS, d.VERDICT_COLUMNS, d.verdicts(scale), cohort_days),
        Part(d.ALARMS, d.ALARM_COLUMNS, d.alarms(scale), d.ALARMS_A_DAY * scale.days),
        Part(d.THRESHOLDS, d.THRESHOLD_COLUMNS, d.thresholds(scale), d.THRESHOLD_CHANGES),
        Part(c.RUNS, c.RUN_COLUMNS, c.runs(scale), c.PAST_RUNS),
        Part(c.CLUSTERS, c.CLUSTER_COLUMNS, c.clusters(scale), scale.clusters),
        Part(c.MEMBERS, c.MEMBER_COLUMNS, c.members(scale), scale.clusters * scale.members),
        Part(c.SETS, c.SET_COLUMNS, c.training_sets(scale), c.TRAINING_SETS),
        Part(c.COVERAGE, c.COVERAGE_COLUMNS, c.coverage(scale), 2 * scale.clusters),
        Part(b.BUILDS, b.BUILD_COLUMNS, b.builds(scale), scale.builds),
        Part(p.ACCOUNTS, p.ACCOUNT_COLUMNS, p.accounts(scale), scale.accounts),
        Part(p.TOKENS, p.TOKEN_COLUMNS, p.session_tokens(scale), scale.accounts * p.SESSIONS_EACH),
        Part(p.SESSIONS, p.SESSION_COLUMNS, p.sessions(scale), scale.accounts * p.SESSIONS_EACH),
        Part(p.TOKENS, p.TOKEN_COLUMNS, p.api_token_rows(scale), scale.accounts * p.API_TOKENS_EACH),
        Part(p.API_TOKENS, p.API_TOKEN_COLUMNS, p.api_tokens(scale), scale.accounts * p.API_TOKENS_EACH),
        Part(p.AUDIT, p.AUDIT_COLUMNS, p.audit(scale), scale.audit),
    ]


def fill(scale: Scale, tell: Tell) -> dict[str, int]:
    """Seed the platform of `settings()`; returns rows by table. Raises NotEmpty."""
    wanted = parts(scale)
    everything = sum(part.about for part in wanted)
    sent, counts = 0, {}
    with psycopg.connect(_plain(settings().database_url), autocommit=True) as connection:
        _demand_empty(connection)
        for part in wanted:

            def told(rows: int, table: str = part.table) -> None:
                nonlocal sent
                sent += rows
                tell(TABLES * min(1.0, sent / everything), table)

            with connection.transaction(), _trusted(connection, part.table):
                counts[part.table] = counts.get(part.table, 0) + copy(
                    connection, part.table, part.columns, part.rows, told
                )
        tell(TABLES, "statistics of the planner")
        connection.execute("VACUUM (ANALYZE)")
    tell(0.96, "last polls")
    counts["redis seen"] = _seen(Fleet(scale))
    tell(0.98, "a bundle")
    build_rows.put_bundle()
    tell(1.0, "done")
    return counts


@contextmanager
def _trusted(connection: psycopg.Connection, table: str) -> Iterator[None]:
    """Without checks of foreign keys, row by row, where there are many rows."""
    wanted = "SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass AND tgisinternal"
    rows = connection.execute(wanted, [table]).fetchall() if table in FOREIGN else []
    for verb in ("DISABLE", "ENABLE"):
        for (name,) in rows:
            statement = sql.SQL("ALTER TABLE {} {} TRIGGER {}")
            connection.execute(statement.format(sql.Identifier(*table.split(".")), sql.SQL(verb), sql.Identifier(name)))
        if verb == "DISABLE":
            yield


def main() -> int:
    """Seed what the options say."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="Example: EDGELOOP_DATABASE_URL=... python -m benchmarks.watching.seed --devices 100000 --releases 1000",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    usual = Scale()
    for name in ("devices", "releases", "days", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(usual, name), help=f"default {getattr(usual, name)}")
    parser.add_argument("--now", type=float, default=None, help="the moment that the year ends; default: now")
    given = parser.parse_args()
    now = time.time() if given.now is None else given.now
    scale = Scale(devices=given.devices, releases=given.releases, days=given.days, seed=given.seed, now=now)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
            job = progress.add_task("seed", total=1.0)
            counts = fill(scale, lambda share, text: progress.update(job, completed=share, description=text))
    except (NotEmpty, psycopg.Error, redis.RedisError) as error:
        print(f"not seeded: {error}", file=sys.stderr)
        return 1
    for table, count in counts.items():
        print(f"{count:>12,}  {table}")
    return 0


def _demand_empty(connection: psycopg.Connection) -> None:
    found = connection.execute(
        "SELECT (SELECT count(*) FROM (SELECT 1 FROM releases.devices LIMIT 1) AS a),"
        " (SELECT count(*) FROM (SELECT 1 FROM releases.rollouts LIMIT 1) AS b)"
    ).fetchone()
    if found is not None and any(found):
        raise NotEmpty("the database has devices or rollouts already; seed a fresh, migrated one")


def _seen(fleet: Fleet) -> int:
    """Last polls, as the releases service keeps them: of those that were heard within a week."""
    oldest, count = fleet.scale.now - SEEN_DAYS * 86_400, 0
    client = redis.Redis.from_url(settings().redis_url)
    heard = fleet.heard.tolist()
    try:
        for start in range(0, len(heard), SEEN_BLOCK):
            block = {
                fleet.ids[place]: repr(heard[place])
                for place in range(start, min(start + SEEN_BLOCK, len(heard)))
                if heard[place] >= oldest
            }
            if block:
                client.hset(SEEN_KEY, mapping=block)
            count += len(block)
    finally:
        client.close()
    return count


def _plain(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://")


if __name__ == "__main__":
    sys.exit(main())
