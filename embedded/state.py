"""The state folder of an embedded platform: its lock, its secrets and ports, and where each child keeps its data.

platform.json   urls, ports, tokens (mode 0600), kept between runs
children.json   what runs now, rewritten on every change
lock            held (flock) by the one supervisor, with its pid inside
logs/           one file a child, and supervisor.log
postgres/ redis/ objects/ prefect/ mlflow/ celery/
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from embedded.errors import AlreadyRunning, EmbeddedError
from embedded.ports import HOST, free_ports, listens


@dataclass(frozen=True)
class PlatformInfo:
    """What `platform.json` says. Tokens are empty until the platform has made them."""

    port: int
    postgres_port: int
    redis_port: int
    prefect_port: int
    mlflow_port: int
    postgres_password: str
    redis_password: str
    operator_token: str = ""
    service_token: str = ""
    enrolment_token: str = ""
    base_url: str = ""
    prefect_api_url: str = ""
    prefect_url: str = ""
    mlflow_url: str = ""
    database_url: str = ""
    redis_url: str = ""

    def with_urls(self) -> PlatformInfo:
        """The same, with the urls that follow from ports and passwords."""
        server = f"{HOST}:{self.postgres_port}"
        return replace(
            self,
            base_url=f"http://{HOST}:{self.port}",
            prefect_url=f"http://{HOST}:{self.prefect_port}",
            prefect_api_url=f"http://{HOST}:{self.prefect_port}/api",
            mlflow_url=f"http://{HOST}:{self.mlflow_port}",
            database_url=f"postgresql+psycopg://postgres:{self.postgres_password}@{server}/edgeloop",
            redis_url=f"redis://:{self.redis_password}@{HOST}:{self.redis_port}/0",
        )


class StateFolder:
    """Paths and files of one state folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()
        self._lock: int | None = None

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def info_file(self) -> Path:
        return self.root / "platform.json"

    @property
    def children_file(self) -> Path:
        return self.root / "children.json"

    def acquire(self) -> None:
        """Take the folder for this process; raises AlreadyRunning, naming the holder."""
        self._make()
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 32).decode().strip() or "unknown"
            os.close(descriptor)
            raise AlreadyRunning(
                f"a platform already runs on {self.root} (pid {holder}); "
                "stop it with Ctrl-C or kill that pid, or choose another folder with --state"
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._lock = descriptor

    def release(self) -> None:
        """Give the folder back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _make(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.logs.mkdir(exist_ok=True)
        except OSError as error:
            why = f"cannot make the state folder {self.root}: {error.strerror}"
            raise EmbeddedError(f"{why}; choose --state") from error

    def info(self) -> PlatformInfo | None:
        """What `platform.json` says, or None when there is none."""
        try:
            document = json.loads(self.info_file.read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise EmbeddedError(f"{self.info_file} is damaged; move it away, new secrets will be made") from error
        known = {field.name for field in fields(PlatformInfo)}
        return PlatformInfo(**{key: value for key, value in document.items() if key in known})

    def plan(self, port: int) -> PlatformInfo:
        """The info for this run: kept secrets, kept ports where they are free, `port` for the API."""
        old = self.info()
        fresh = free_ports(4)
        if old is None:
            passwords = (secrets.token_urlsafe(24), secrets.token_urlsafe(24))
            return PlatformInfo(port, fresh[0], fresh[1], fresh[2], fresh[3], *passwords).with_urls()
        kept = (old.postgres_port, old.redis_port, old.prefect_port, old.mlflow_port)
        ports = [spare if listens(mine) else mine for mine, spare in zip(kept, fresh, strict=True)]
        postgres_port, redis_port, prefect_port, mlflow_port = ports
        return replace(
            old,
            port=port,
            postgres_port=postgres_port,
            redis_port=redis_port,
            prefect_port=prefect_port,
            mlflow_port=mlflow_port,
        ).with_urls()

    def save(self, info: PlatformInfo) -> None:
        """Write `platform.json`, readable for its owner only."""
        write_private(self.info_file, asdict(info))

    def save_children(self, document: dict[str, Any]) -> None:  # Any: JSON
        """Write `children.json`."""
        write_private(self.children_file, document)

    def children(self) -> dict[str, Any]:  # Any: JSON
        """What `children.json` says; empty when there is none."""
        try:
            document: dict[str, Any] = json.loads(self.children_file.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return document


def write_private(path: Path, document: dict[str, Any]) -> None:  # Any: JSON
    """Replace `path` in one step by a file of mode 0600."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(document, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
