"""What a cluster does before its services start: `python -m services.operations.bootstrap COMMAND`.

migrate       bring the database to the newest revision, alone (advisory lock), and take over the staff tokens that the
              deployment's secret holds (EDGELOOP_SERVICE_TOKEN, EDGELOOP_OPERATOR_TOKEN)
wait          until the database has the revision of this code
new-token     print a token to put into that secret
new-secrets DIR  make the secret files of the compose file (see docs/how-to/install-with-compose.md)
enrol FILE    get an enrolment token from the platform, by the operator token, and write it to FILE
new-keys DIR  make the signing keys of releases in DIR, to put into a secret (and a safe)

Tokens reach the database as hashes; they are never printed again, and never taken from arguments.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import time
from pathlib import Path

import structlog
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from services.kit.auth import DEFAULT_SCOPES, Kind, hash_of, split_token
from services.kit.clients import ServiceClient, ServiceError
from services.kit.database import engine, transaction
from services.kit.logs import configure_logs
from services.kit.models import SCHEMA, Token
from services.kit.settings import SECRETS_VARIABLE, settings
from services.prepare import MIGRATIONS, migrate
from services.releases.keys import ROLES, FileKeyStore

LOCK = 0x65646765_6C6F6F70
WAIT_S = 600.0
POLL_S = 1.0
ENROLMENTS, ENROLMENT_S = 100_000, 7 * 86_400
SUBJECT = "deployment"
TOKEN = re.compile(r"^el_[0-9a-f]{16}_[A-Za-z0-9_-]{43}$")

log = structlog.get_logger(__name__)


class BootstrapError(Exception):
    """The installation cannot be prepared; the message says what and the remedy."""


def head() -> str:
    """The newest revision that this code knows."""
    configuration = Config()
    configuration.set_main_option("script_location", str(MIGRATIONS))
    configuration.set_main_option("path_separator", "os")
    found = ScriptDirectory.from_config(configuration).get_current_head()
    assert found is not None, "the history has one head"
    return found


def revision() -> str:
    """The revision of the database; empty for a database without tables. Raises OperationalError."""
    with engine().connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA})
        return context.get_current_revision() or ""


def migrate_alone() -> str:
    """Migrate while no other process does; returns the revision."""
    with engine().connect() as connection:
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": LOCK})
        try:
            migrate()
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": LOCK})
            connection.commit()
    return revision()


def adopt(kind: Kind, token: str) -> bool:
    """Make a token of the deployment's secret valid; False when it was already. Raises BootstrapError."""
    if not TOKEN.match(token):
        raise BootstrapError(
            f"the {kind} token is not one of ours; make it with `python -m services.operations.bootstrap new-token`"
        )
    token_id, secret = split_token(token)
    with transaction() as session:
        known = session.get(Token, token_id)
        if known is not None:
            if known.secret_hash != hash_of(secret) or known.revoked_at is not None:
                raise BootstrapError(f"the {kind} token was revoked or changed; put a new one into the secret")
            return False
        scopes = sorted(DEFAULT_SCOPES[kind])
        session.add(Token(id=token_id, secret_hash=hash_of(secret), kind=kind, subject_id=SUBJECT, scopes=scopes))
    return True


def wait(seconds: float = WAIT_S) -> str:
    """Wait until the database has this code's revision; raises BootstrapError naming what is there instead."""
    wanted, until, found = head(), time.monotonic() + seconds, ""
    while True:
        try:
            found = revision()
        except OperationalError as error:
            found = f"no answer ({type(error).__name__})"
        if found == wanted:
            return found
        if time.monotonic() >= until:
            raise BootstrapError(f"the database has revision {found or 'none'}, wanted is {wanted}; run the migration")
        time.sleep(POLL_S)


def new_token() -> str:
    """A token in the form of this platform."""
    return f"el_{secrets.token_hex(8)}_{secrets.token_urlsafe(32)}"


def new_keys(folder: Path) -> list[str]:
    """Make the signing keys that are not there yet; returns their file names."""
    store = FileKeyStore(folder)
    for role in ROLES:
        store.signer(role)
    store.state_key()
    return sorted(path.name for path in folder.glob("*.pem"))


def new_secrets(folder: Path) -> list[str]:
    """Make every secret file of the compose file; nothing that exists is changed. Returns the names of new ones."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    database, redis = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    files = {
        "postgresql_password": database,
        "redis_password": redis,
        "edgeloop_database_url": f"postgresql+psycopg://postgres:{database}@postgres:5432/edgeloop",
        "edgeloop_redis_url": f"redis://:{redis}@redis:6379/0",
        "edgeloop_service_token": new_token(),
        "edgeloop_operator_token": new_token(),
        "edgeloop_s3_access_key": secrets.token_hex(10),
        "edgeloop_s3_secret_key": secrets.token_urlsafe(30),
    }
    existing = sorted(name for name in files if (folder / name).exists())
    if existing:
        raise BootstrapError(f"{folder} holds {', '.join(existing)} already; keep them, or choose an empty folder")
    for name, value in files.items():
        path = folder / name
        path.write_text(value)
        path.chmod(0o444)  # the folder is closed; in a container another user reads the file alone
    return sorted(files)


def operator_token() -> str:
    """EDGELOOP_OPERATOR_TOKEN, else the file of that name in EDGELOOP_SECRETS_DIR, else nothing."""
    folder = os.environ.get(SECRETS_VARIABLE)
    path = Path(folder) / "edgeloop_operator_token" if folder else None
    given = os.environ.get("EDGELOOP_OPERATOR_TOKEN", "")
    return given or (path.read_text().strip() if path is not None and path.is_file() else "")


def enrol(target: Path, uses: int = ENROLMENTS) -> None:
    """Write a new enrolment token to `target`, unless one is there."""
    if target.exists():
        return
    with ServiceClient(f"{settings().base_url.rstrip('/')}/releases", operator_token()) as client:
        answer = client.post("/v1/enrolment-tokens", {"uses": uses, "ttl_s": ENROLMENT_S})
    target.write_text(answer["token"])
    target.chmod(0o444)


def _migrate() -> None:
    log.info("migrated", revision=migrate_alone())
    given: dict[Kind, str] = {
        "service": settings().service_token.get_secret_value(),
        "operator": operator_token(),
    }
    for kind, token in given.items():
        if token:
            log.info("staff_access", kind=kind, new=adopt(kind, token))


def main(words: list[str]) -> int:
    """Run one command; 1 when it failed, 2 for wrong use."""
    configure_logs("bootstrap", settings().log_level)
    try:
        match words:
            case ["migrate"]:
                _migrate()
            case ["wait"]:
                log.info("ready", revision=wait())
            case ["new-token"]:
                print(new_token())
            case ["new-secrets", folder]:
                print("\n".join(new_secrets(Path(folder))))
            case ["enrol", file]:
                enrol(Path(file))
            case ["new-keys", folder]:
                print("\n".join(new_keys(Path(folder))))
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (BootstrapError, OperationalError, ServiceError, OSError) as error:
        log.error("bootstrap_failed", error=str(error).splitlines()[0])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
