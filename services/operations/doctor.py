"""`edgeloop doctor`: one check an idea, each says what is wrong, where, and what to do.

A check is a function whose docstring is its line in the manual; it returns a Finding and may raise: whatever it raises
is a failure with that check's own remedy. Checks change nothing, but for one small object that is written, read and
removed.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

import httpx
import structlog
from sqlalchemy import text

from services.kit.auth import authenticate
from services.kit.database import engine, transaction
from services.kit.heartbeat import alive
from services.kit.problems import Unauthorized
from services.kit.settings import settings
from services.kit.storage import store
from services.kit.streams import connection, length
from services.operations.bootstrap import head, revision
from services.operations.expiry import expiries
from services.operations.readings import STREAMS

HTTP_S = 5.0
log = structlog.get_logger(__name__)
POSTGRES = 170_000


@dataclass(frozen=True)
class DoctorLimits:
    """From when a reading is a warning or a failure. Seconds, bytes, shares, days."""

    skew_warn_s: float = 2.0
    skew_fail_s: float = 30.0
    disk_warn_share: float = 0.10
    disk_fail_bytes: int = 1 << 30
    token_days: int = 7
    metadata_warn_s: float = 6 * 3_600
    root_warn_s: float = 30 * 86_400
    outbox_warn_s: float = 600.0


LIMITS = DoctorLimits()


class State(StrEnum):
    """How a check ended; SKIPPED where there is nothing to check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """The end of one check; `remedy` says what to do when it is not well."""

    check: str
    state: State
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class Check:
    """A check by name; `remedy` holds for whatever it raises."""

    name: str
    run: Callable[[], Finding]
    remedy: str


def examine() -> Iterator[Finding]:
    """Every check in turn; none stops the others."""
    for check in CHECKS:
        try:
            yield check.run()
        except Exception as error:  # whatever it is, a person must be told and the next check must run
            lines = str(error).strip().splitlines() or [type(error).__name__]
            yield Finding(check.name, State.FAILED, f"{type(error).__name__}: {lines[0][:300]}", check.remedy)


def database() -> Finding:
    """The database answers and is PostgreSQL 17 or newer."""
    with engine().connect() as opened:
        number = int(opened.scalar(text("SHOW server_version_num")) or 0)
    if number < POSTGRES:
        return Finding("database", State.FAILED, f"PostgreSQL {number // 10_000}", "upgrade to PostgreSQL 17 or newer")
    return Finding("database", State.OK, f"PostgreSQL {number // 10_000}.{number % 10_000}")


def migrations() -> Finding:
    """The database has the revision of this code."""
    found, wanted = revision(), head()
    if found == wanted:
        return Finding("migrations", State.OK, found)
    remedy = "run `python -m services.operations.bootstrap migrate`, or install the code that fits this database"
    return Finding("migrations", State.FAILED, f"database {found or 'empty'}, code {wanted}", remedy)


def redis() -> Finding:
    """Redis answers, never evicts what it was given, and writes it down."""
    client: Any = connection()  # Any: redis-py types answers as sync or async
    client.ping()
    try:
        policy = client.config_get("maxmemory-policy").get("maxmemory-policy", "noeviction")
        durable = client.config_get("appendonly").get("appendonly", "yes")
    except Exception:  # a managed Redis refuses CONFIG; then its owner answers for it
        return Finding("redis", State.OK, "answers; its settings cannot be read")
    if policy != "noeviction":
        remedy = "set maxmemory-policy noeviction: tasks and stream entries must not be evicted"
        return Finding("redis", State.FAILED, f"maxmemory-policy is {policy}", remedy)
    if durable != "yes":
        remedy = "set appendonly yes; until then a restart of Redis delays what was on its way"
        return Finding("redis", State.WARNING, "appendonly is off", remedy)
    return Finding("redis", State.OK, "answers, appendonly, noeviction")


def object_store() -> Finding:
    """An object can be written, read and removed."""
    key, data = f"doctor/{secrets.token_hex(8)}", secrets.token_bytes(32)
    store().put(key, data)
    same = store().get(key) == data
    store().delete(key)
    if not same:
        return Finding("object store", State.FAILED, "gave other bytes than were written", "check the bucket and disk")
    return Finding("object store", State.OK, "writes, reads, removes")


def api() -> Finding:
    """The public address answers and is ready."""
    answer = httpx.get(f"{settings().base_url.rstrip('/')}/readyz", timeout=HTTP_S, trust_env=False)
    if answer.is_success:
        return Finding("api", State.OK, settings().base_url)
    detail = str(answer.json().get("detail", "")) if "json" in answer.headers.get("content-type", "") else ""
    remedy = "see to what it names; then the API becomes ready by itself"
    return Finding("api", State.FAILED, f"{answer.status_code} {detail}".strip(), remedy)


def prefect() -> Finding:
    """Prefect answers."""
    return _answers("prefect", f"{settings().prefect_api_url.rstrip('/')}/health")


def mlflow() -> Finding:
    """MLflow answers, where one is set."""
    if not settings().mlflow_tracking_uri:
        return Finding("mlflow", State.SKIPPED, "EDGELOOP_MLFLOW_TRACKING_URI is not set")
    return _answers("mlflow", f"{settings().mlflow_tracking_uri.rstrip('/')}/health")


def clocks() -> Finding:
    """This machine, the database, Redis and the API agree on the time."""
    skews = dict(_skews())
    if not skews:
        return Finding("clocks", State.SKIPPED, "nothing answered that has a clock")
    name, worst = max(skews.items(), key=lambda pair: abs(pair[1]))
    detail = f"{name} differs by {worst:+.1f} s from this machine"
    remedy = "run a time service (chrony) on both; signatures, leases and tokens depend on the clock"
    if abs(worst) >= LIMITS.skew_fail_s:
        return Finding("clocks", State.FAILED, detail, remedy)
    return Finding("clocks", State.WARNING if abs(worst) >= LIMITS.skew_warn_s else State.OK, detail, remedy)


def disk() -> Finding:
    """The state folder's disk has room."""
    folder = settings().state_dir.absolute()
    while not folder.exists():
        folder = folder.parent
    usage = shutil.disk_usage(folder)
    detail = f"{usage.free / (1 << 30):.1f} GiB free of {usage.total / (1 << 30):.1f} at {folder}"
    remedy = "free space or enlarge the volume; uploads are refused with 507 when it is full"
    if usage.free < LIMITS.disk_fail_bytes:
        return Finding("disk", State.FAILED, detail, remedy)
    scarce = usage.free < LIMITS.disk_warn_share * usage.total
    return Finding("disk", State.WARNING if scarce else State.OK, detail, remedy if scarce else "")


def service_token() -> Finding:
    """The service token of the settings is valid."""
    token = settings().service_token.get_secret_value()
    if not token:
        return Finding("service token", State.SKIPPED, "EDGELOOP_SERVICE_TOKEN is not set")
    try:
        with transaction() as session:
            holder = authenticate(session, token)
    except Unauthorized:
        remedy = "put a valid token into EDGELOOP_SERVICE_TOKEN and run the migration job, which takes it over"
        return Finding("service token", State.FAILED, "unknown, expired or revoked", remedy)
    return Finding("service token", State.OK, str(holder))


def tokens() -> Finding:
    """No operator or service token expires within a week."""
    statement = text(
        "SELECT kind || ':' || subject_id, expires_at FROM kit.tokens WHERE kind <> 'device' AND revoked_at IS NULL "
        "AND expires_at > now() AND expires_at < now() + make_interval(days => :days) ORDER BY expires_at LIMIT 20"
    )
    with transaction() as session:
        rows = session.execute(statement, {"days": LIMITS.token_days}).all()
    if not rows:
        return Finding("tokens", State.OK, f"none expires within {LIMITS.token_days} days")
    named = ", ".join(f"{holder} on {moment:%Y-%m-%d}" for holder, moment in rows[:5])
    remedy = "make new tokens and put them where the old ones are used"
    return Finding("tokens", State.WARNING, f"{len(rows)} expire soon: {named}", remedy)


def update_metadata() -> Finding:
    """Update metadata (TUF) are far from their expiry, after which devices refuse every update."""
    moments = dict(expiries())
    if not moments:
        return Finding("update metadata", State.SKIPPED, "nothing was released yet")
    left = {role: moment - time.time() for role, moment in moments.items()}
    soonest = min(left, key=lambda role: left[role])
    detail = ", ".join(f"{role} {seconds / 3_600:.1f} h" for role, seconds in left.items())
    remedy = "is beat alive, and a worker of the queue releases? It signs again; a root is renewed by a person"
    if left[soonest] <= 0:
        return Finding("update metadata", State.FAILED, f"{soonest} is expired ({detail})", remedy)
    soon = left.get("root", LIMITS.root_warn_s) < LIMITS.root_warn_s or left[soonest] < LIMITS.metadata_warn_s
    return Finding("update metadata", State.WARNING if soon else State.OK, detail, remedy if soon else "")


def background() -> Finding:
    """At least one worker and one beat show signs of life."""
    living = [process.kind for process in alive()]
    missing = [kind for kind in ("worker", "beat") if kind not in living]
    detail = f"{living.count('worker')} workers, {living.count('beat')} beats"
    if missing:
        remedy = "start them: celery -A services.worker worker|beat, or see why their pods do not run"
        return Finding("background", State.FAILED, f"{detail}: no {' and no '.join(missing)}", remedy)
    return Finding("background", State.OK, detail)


def backlog() -> Finding:
    """Outbox messages are not stuck, and no stream entries were given up."""
    with transaction() as session:
        oldest = session.execute(
            text(
                "SELECT topic, extract(epoch FROM now() - created_at), last_error FROM kit.outbox "
                "WHERE done_at IS NULL ORDER BY created_at LIMIT 1"
            )
        ).first()
    dead = {stream: count for stream, _ in STREAMS if (count := length(f"{stream}.dead"))}
    if dead:
        detail = ", ".join(f"{count} of {stream}" for stream, count in dead.items())
        return Finding("backlog", State.WARNING, f"given up: {detail}", "see the runbook EdgeLoopDeadMessages")
    if oldest is not None and float(oldest[1]) > LIMITS.outbox_warn_s:
        detail = f"{oldest[0]} has waited {float(oldest[1]):.0f} s; last error: {(oldest[2] or 'none')[:200]}"
        return Finding("backlog", State.WARNING, detail, "see the runbook EdgeLoopOutboxStuck")
    return Finding("backlog", State.OK, "nothing is stuck")


def _answers(name: str, url: str) -> Finding:
    answer = httpx.get(url, timeout=HTTP_S, trust_env=False)
    if answer.is_success:
        return Finding(name, State.OK, url)
    return Finding(name, State.FAILED, f"{url} answered {answer.status_code}", "see its own log")


def _skews() -> Iterator[tuple[str, float]]:
    """Name and seconds ahead of this machine; half of the way there and back is taken off."""
    for name, ask in (("database", _database_time), ("redis", _redis_time), ("api", _api_time)):
        begun = time.time()
        try:
            theirs = ask()
        except Exception as error:  # that it does not answer is another check's finding
            log.debug("no_clock", name=name, error=type(error).__name__)
            continue
        yield name, theirs - (begun + time.time()) / 2


def _database_time() -> float:
    with engine().connect() as opened:
        return float(opened.scalar(text("SELECT extract(epoch FROM clock_timestamp())")) or 0)


def _redis_time() -> float:
    client: Any = connection()  # Any: redis-py types answers as sync or async
    seconds, microseconds = client.time()
    return float(seconds) + float(microseconds) / 1e6


def _api_time() -> float:
    answer = httpx.get(f"{settings().base_url.rstrip('/')}/healthz", timeout=HTTP_S, trust_env=False)
    moment: datetime = parsedate_to_datetime(answer.headers["date"]).astimezone(UTC)
    return moment.timestamp() + 0.5  # the header has whole seconds


CHECKS = (
    Check("database", database, "is it running, and does EDGELOOP_DATABASE_URL name it?"),
    Check("migrations", migrations, "the database must answer first"),
    Check("redis", redis, "is it running, and does EDGELOOP_REDIS_URL name it?"),
    Check("object store", object_store, "check EDGELOOP_STORAGE_URL, the AWS_* variables and the bucket's policy"),
    Check("api", api, "is it running, and does EDGELOOP_BASE_URL name it?"),
    Check("prefect", prefect, "is it running, and does EDGELOOP_PREFECT_API_URL name it? Only retraining needs it"),
    Check("mlflow", mlflow, "is it running, and does EDGELOOP_MLFLOW_TRACKING_URI name it? Only retraining needs it"),
    Check("clocks", clocks, "database or Redis must answer first"),
    Check("disk", disk, "does EDGELOOP_STATE_DIR name a folder that this user may read?"),
    Check("service token", service_token, "the database must answer first"),
    Check("tokens", tokens, "the database must answer first"),
    Check("update metadata", update_metadata, "restore the object store's tuf/ from the backup"),
    Check("background", background, "Redis must answer first"),
    Check("backlog", backlog, "database and Redis must answer first"),
)
