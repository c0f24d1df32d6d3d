"""Do an order: once, whoever asks. The result is a JSON file in the folder of results; it is there whole or not at all.

A worker that the flow has lost sight of may still be at it when the flow asks again. Both lock the result, so that the
second waits and takes what the first has made.
"""

from __future__ import annotations

import copy
import fcntl
import json
import logging
import os
import pickle
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from flows.errors import StepError
from flows.run_folder import Json
from flows.spread.digests import digest_of
from flows.spread.job import Order, our_version
from flows.spread.seat import seat
from flows.storage import write_whole

Report = Callable[[float, str], None]
SHARE_EVERY_S = 0.5
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """What the function of a job gets."""

    settings: Json
    files: Mapping[str, Path]
    seed: int
    folder: Path
    stem: str
    progress: Report
    """Told (share 0..1, what) while it works."""
    given: Mapping[str, object] = field(default_factory=dict)

    def beside(self, suffix: str) -> Path:
        """Path of a file that the function may leave beside its result, under the job's own name."""
        return self.folder / f"{self.stem}{suffix}"


def do(order: Order, report: Report, given: Mapping[str, object] | None = None) -> None:
    """Leave the result of an order, unless it is there. Raises whatever the function raises."""
    Path(order.folder).mkdir(parents=True, exist_ok=True)
    function = _function(order)  # before it has its seat: what a module draws while it is imported is not the job's
    with _alone(Path(order.folder) / f".{order.stem}.lock"), seat(order.seed):
        if result_of(order) is not None:
            return
        if order.version != our_version():
            raise StepError(
                f"job {order.name} on {socket.gethostname()}: edgeloop {our_version()} cannot work for a flow of "
                f"{order.version}; install the same"
            )
        files = {role: _checked(role, path, digest, order) for role, (path, digest) in order.files.items()}
        work = Work(order.settings, files, order.seed, Path(order.folder), order.stem, report, given or {})
        value = json.dumps({"name": order.name, "value": function(work)}, sort_keys=True).encode()
        write_whole(order.result, lambda file: file.write(value))


def attempted(text: str) -> Exception | None:
    """`do` for a worker: tells its progress in a file, and returns what went wrong in a form that can be sent."""
    order = Order.from_json(text)
    try:
        do(order, _Shares(order.share))
    except Exception as error:  # whatever a job raises, its flow is to be told
        return _sendable(error, order)
    finally:
        order.share.unlink(missing_ok=True)
    return None


def result_of(order: Order) -> Json | None:
    """What the order's job returned, None while it is not done."""
    try:
        value = json.loads(order.result.read_bytes())["value"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        _log.warning("%s is damaged (%s); the job is done again", order.result, error)
        return None
    return dict(value)


class _Shares:
    """Writes progress to a file, not more often than anybody reads it."""

    def __init__(self, path: Path) -> None:
        self._path, self._last = path, 0.0

    def __call__(self, share: float, what: str) -> None:
        now = time.monotonic()
        if now - self._last < SHARE_EVERY_S and share < 1.0:
            return
        self._last = now
        part = self._path.with_name(f"{self._path.name}.part")
        try:
            part.write_text(json.dumps([share, what]))
            part.replace(self._path)
        except OSError:
            return  # a full disk stops the job where its result is written, not here


def _checked(role: str, path: str, digest: str, order: Order) -> Path:
    found = Path(path)
    where = f"job {order.name} on {socket.gethostname()}"
    if not found.is_file():
        raise StepError(f"{where}: its {role} {path} is not there; workers need the state folder at the flow's path")
    if digest_of(found) != digest:
        raise StepError(f"{where}: its {role} {path} is another file than the flow's; let both use one folder")
    return found


def _function(order: Order) -> Callable[[Work], Json]:
    module, _, name = order.call.partition(":")
    found: Callable[[Work], Json] = getattr(import_module(module), name)
    return found


def _sendable(error: Exception, order: Order) -> Exception:
    """The error itself where it survives being sent, else its words."""
    try:
        copy.copy(error)
        pickle.dumps(error)
    except Exception:  # an exception of any make
        return StepError(f"job {order.name}: {type(error).__name__}: {error}")
    return error


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
