"""A window of many segments through curation and its PostgreSQL, in a process of its own.

`python -m benchmarks.clustering.window COUNT` clusters COUNT segments, adds a day of a seventh more, covers them by a
training set of 1,000 vectors and applies the plan; prints JSON. Segments are 32-d, nine in ten in 2,000 conditions
of Pareto sizes. The database runs without fsync, as in tests: what is measured is curation, not a disk.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from alembic import command
from alembic.config import Config
from numpy.typing import NDArray
from sqlalchemy import text

from contracts.wire.curation import TrainingVector, TrainingVectorBatch
from embedded.postgres import Postgres
from services.curation import runs, service
from services.curation.applying import apply_plan
from services.curation.limits import CurationSettings
from services.curation.models import Run
from services.kit.database import engine, transaction
from services.kit.settings import settings
from tests.support.servers import postgres_server, server_folder

ROOT = Path(__file__).resolve().parents[2]
NOW = 20_000 * 86_400.0
CONDITIONS, SEED, ROWS = 2_000, 41, 50_000
COPY = (
    "COPY curation.segments (segment_id, embedding_id, model_version, hour, device_class, cohort, network, score_mean, "
    "score_max, motion, vector) FROM STDIN"
)


def main(count: int) -> None:
    """Measure and print."""
    with server_folder("window") as folder, postgres_server(folder) as (postgres, _):
        _prepare(postgres, folder)
        rows, centres = _segments(count + count // 7)
        _load(rows, 0, count, int(NOW // 3600))
        answer: dict[str, Any] = {"count": count}
        full, answer["full"] = _timed(lambda: _run(NOW))
        answer |= {"clusters": full.clusters, "recall": full.recall, "state": full.state, "error": full.error}
        _load(rows, count, len(rows), int(NOW // 3600) + 24)
        added, answer["day"] = _timed(lambda: _run(NOW + 86_400.0))
        answer |= {"inserted": added.inserted, "day_state": added.state}
        _, answer["cover"] = _timed(lambda: _cover(centres))
        done, answer["apply"] = _timed(lambda: _apply(added.id))
        answer |= {"dropped": done, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
        print(json.dumps(answer))
        engine().dispose()


def _prepare(postgres: Postgres, folder: Path) -> None:
    postgres.add_database("window")
    os.environ["EDGELOOP_DATABASE_URL"] = postgres.url("window")
    os.environ["EDGELOOP_STATE_DIR"] = str(folder / "state")
    settings.cache_clear()
    config = Config(str(ROOT / "alembic.ini"))
    config.set_main_option("script_location", str(ROOT / "migrations"))
    command.upgrade(config, "head")


def _segments(count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rng = np.random.default_rng(SEED)
    centres = rng.uniform(0.1, 0.9, size=(CONDITIONS, 32)).astype(np.float32)
    sizes = rng.pareto(1.0, CONDITIONS) + 1.0
    rows = rng.uniform(0.0, 1.0, size=(count, 32)).astype(np.float32)
    known = rng.random(count) < 0.9
    owner = rng.choice(CONDITIONS, size=int(known.sum()), p=sizes / sizes.sum())
    rows[known] = centres[owner] + 0.01 * rng.normal(size=(len(owner), 32)).astype(np.float32)
    return rows, centres


def _load(rows: NDArray[np.float32], first: int, end: int, hour: int) -> None:
    rng = np.random.default_rng(SEED + first)
    scores = rng.uniform(1.0, 9.0, end - first)
    for begin in range(first, end, ROWS):
        with (
            transaction() as session,
            session.connection().connection.cursor() as cursor,
            cursor.copy(COPY) as copy,
        ):
            for index in range(begin, min(begin + ROWS, end)):
                name, kind = f"{index * 2_654_435_761 % 2**32:08x}{index:08x}", f"npu-{index % 3}t"
                score = float(scores[index - first])
                known = (name, "e1", "m1", hour, kind, f"{kind}/meeting", "wifi", score, score, 1.0)
                copy.write_row((*known, rows[index].tobytes()))
    with transaction() as session:
        session.execute(text("ANALYZE curation.segments"))


def _run(now: float) -> Run:
    with transaction() as session:
        runs.request_run(session, now)
    run_id = service.run_next(now, CurationSettings())
    with transaction() as session:
        return session.get_one(Run, run_id)


def _cover(centres: NDArray[np.float32]) -> None:
    told = [
        TrainingVector(video=f"v{index % 20}", condition="c", vector=tuple(map(float, row)))
        for index, row in enumerate(centres[:1_000])
    ]
    with transaction() as session:
        batch = TrainingVectorBatch(revision="seed", vectors=tuple(told))
        service.post_training_set(session, batch, NOW + 86_400.0, CurationSettings())


def _apply(run_id: str) -> int:
    with transaction() as session:
        run = session.get_one(Run, run_id)
        apply_plan(session, run, run.digest, NOW + 86_400.0, CurationSettings())
        return run.dropped


def _timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    wall, cpu = time.perf_counter(), time.process_time()
    done = work()
    return done, {"seconds": round(time.perf_counter() - wall, 1), "cpu": round(time.process_time() - cpu, 1)}


if __name__ == "__main__":
    main(int(sys.argv[1]))
