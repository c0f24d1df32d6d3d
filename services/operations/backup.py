"""A backup of everything that cannot be made again: database, objects, signing keys; and the way back.

    database.dump    pg_dump, custom format, one consistent snapshot
    objects/<key>    every object; copied after the dump, and an object is stored before the row that names it, so
                     each row of the dump has its object
    keys/<path>      the signing keys, mode 0600
    SHA256SUMS       of all of these; checked before a restore changes anything

Redis is not in it: what it holds is published again from the database. MLflow and Prefect keep their own. A password
reaches pg_dump by its environment, never by an argument. Raises BackupError.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import make_url, text

from services.kit.database import engine
from services.kit.settings import settings
from services.kit.storage import store

DUMP, OBJECTS, KEYS, SUMS = "database.dump", "objects", "keys", "SHA256SUMS"
PROGRAMS_VARIABLE = "EDGELOOP_PG_BIN"
PROGRAM_S = 6 * 3_600
BLOCK = 1 << 20

Tell = Callable[[str], None]


class BackupError(Exception):
    """A backup cannot be made, or is not whole; the message says what and the remedy."""


@dataclass(frozen=True)
class Summary:
    """What a backup holds: bytes of the dump, objects, keys."""

    dump_bytes: int
    objects: int
    keys: int


def make(folder: Path, tell: Tell) -> Summary:
    """Write a backup into a folder that must not exist yet. It appears whole or not at all."""
    if folder.exists():
        raise BackupError(f"{folder} exists and is not overwritten; choose another name")
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        (partial / OBJECTS).mkdir(parents=True, mode=0o700)
        partial.chmod(0o700)
        tell("dumping the database")
        _run("pg_dump", "--format=custom", "--no-owner", f"--file={partial / DUMP}")
        tell("copying objects")
        objects = sum(1 for _ in _copy_objects(partial / OBJECTS))
        keys = _copy_keys(settings().state_dir / KEYS, partial / KEYS)
        tell("hashing")
        _write_sums(partial)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return Summary((folder / DUMP).stat().st_size, objects, keys)


def faults(folder: Path) -> list[str]:
    """What does not hold in a backup: files that changed, are missing or are not named; empty when it is whole."""
    try:
        lines = (folder / SUMS).read_text().splitlines()
    except FileNotFoundError:
        return [f"{folder} has no {SUMS}: it is no backup, or was not finished"]
    named = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    found = {str(path.relative_to(folder)): path for path in _files(folder)}
    wrong = [f"{name} is missing" for name in sorted(named.keys() - found.keys())]
    wrong += [f"{name} is not named in {SUMS}" for name in sorted(found.keys() - named.keys())]
    changed = (name for name in sorted(named.keys() & found.keys()) if _hash(found[name]) != named[name])
    return wrong + [f"{name} was changed" for name in changed]


def restore(folder: Path, tell: Tell) -> Summary:
    """Bring a backup back into an empty database, the object store and the state folder.

    Nothing is changed unless the backup is whole and the database empty. Objects that are there already stay.
    """
    tell("checking the backup")
    wrong = faults(folder)
    if wrong:
        raise BackupError(f"{folder} is not whole: {wrong[0]}; take another backup")
    with engine().connect() as opened:
        tables = opened.scalar(text("SELECT count(*) FROM pg_tables WHERE schemaname = 'kit'"))
    if tables:
        raise BackupError("the database is not empty; restore into a new one, so that nothing is mixed")
    objects = keys = 0
    tell("copying objects")
    for path in _files(folder / OBJECTS):
        key = str(path.relative_to(folder / OBJECTS))
        if not store().exists(key):
            store().put(key, path.read_bytes())
        objects += 1
    if (folder / KEYS).is_dir():
        keys = _copy_keys(folder / KEYS, settings().state_dir / KEYS)
    tell("restoring the database")
    options = ("--exit-on-error", "--single-transaction", "--no-owner", f"--dbname={_database()}")
    _run("pg_restore", *options, str(folder / DUMP))
    return Summary((folder / DUMP).stat().st_size, objects, keys)


def _database() -> str:
    return make_url(settings().database_url).database or ""


def _run(program: str, *arguments: str) -> None:
    url = make_url(settings().database_url)
    places = os.environ.get(PROGRAMS_VARIABLE)
    found = shutil.which(program, path=places)
    if found is None:
        where = f"{PROGRAMS_VARIABLE}={places}" if places else "the PATH"
        raise BackupError(f"{program} is not on {where}; install PostgreSQL's client programs of the server's version")
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "PGHOST": url.host or "",
        "PGPORT": str(url.port or 5432),
        "PGUSER": url.username or "",
        "PGPASSWORD": str(url.password or ""),
        "PGDATABASE": url.database or "",
    }
    done = subprocess.run(
        [found, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=PROGRAM_S
    )
    if done.returncode != 0:
        raise BackupError(f"{program} failed: {done.stderr.strip()[-500:]}")


def _copy_objects(folder: Path) -> Iterator[str]:
    for key in store().keys():  # noqa: SIM118  # an object store is no dictionary
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store().get(key))
        yield key


def _copy_keys(source: Path, target: Path) -> int:
    """Copy key files that are not there yet, mode 0600; returns how many the source has."""
    count = 0
    for path in _files(source) if source.is_dir() else ():
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not copy.exists():
            with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(path.read_bytes())
        count += 1
    return count


def _write_sums(folder: Path) -> None:
    lines = [f"{_hash(path)}  {path.relative_to(folder)}\n" for path in sorted(_files(folder))]
    with (folder / SUMS).open("w") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
