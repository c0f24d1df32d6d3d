"""What a device tells about itself when somebody asks: versions, slots, causes, memory map, the trace of the last
frames.

Never pixels, features, tokens, keys or pseudonyms: the package is built from a list of what may be in it, not from what
the device has. A running agent makes it in memory, so that no trace lies in clear on the disk; it is asked by a file.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import cryptography
import numpy

from contracts.diagnostics import MOST_PLAIN, DiagnosticsError, close_package
from edge_agent import __version__
from edge_agent.agent import Agent
from edge_agent.disk import Disk
from edge_agent.enrol import load_identity
from edge_agent.errors import AgentError, ConfigError
from edge_agent.runtime.trace import TraceRing
from edge_agent.slot_store import FILE, read_slots
from edge_agent.slots import Slots
from edge_agent.tee import TeeRefused, TeeUnavailable, TrustedEnvironment

log = logging.getLogger(__name__)
FORMAT = "edgeloop-diagnostics-1"
REQUEST, ANSWER = "diagnose.request", "diagnose.elg"
REQUEST_BYTES = 1_024
TRACE_BYTES = 6 << 20
STATUS = (
    "frames",
    "upscaled",
    "observed",
    "killed_frames",
    "plain_frames",
    "unverified_frames",
    "sync_errors",
    "last_error",
    "confirmed",
    "rolled_back",
    "last_cause",
    "running_digest",
    "running_version",
    "slot_state",
    "engine_state",
    "killed",
    "bundles_verified",
    "bundles_loaded",
    "deltas",
    "outbox",
)
"""What of an agent's status goes into a package."""


def of_agent(agent: Agent, device_id: str) -> dict[str, object]:
    """The content of a running agent's package."""
    status = agent.status()
    runner = getattr(agent.playback, "runner", None)
    trace = getattr(runner, "trace", None)
    return {
        **_common(agent.slots, device_id),
        "status": {name: status[name] for name in STATUS if name in status},
        "memory_map": agent.memory_map(),
        "trace": _trace(trace) if isinstance(trace, TraceRing) else None,
    }


def of_folder(folder: Path) -> dict[str, object]:
    """The content of a stopped device's package: what its disk knows."""
    identity = load_identity(folder)
    return _common(read_slots(folder / FILE), identity.device_id if identity else "")


def package(body: dict[str, object], platform_key: bytes, tee: TrustedEnvironment | None) -> bytes:
    """Close a package, signed when the trusted environment answers. Raises ConfigError."""
    sign: Callable[[bytes], bytes] | None = None
    if tee is not None:
        try:
            body = {**body, "signing_key": tee.public().signing.hex()}
            sign = tee.sign
            return close_package(body, platform_key, sign)
        except (TeeUnavailable, TeeRefused) as error:
            body = {**body, "unsigned": str(error)[:200]}
            body.pop("signing_key", None)
        except DiagnosticsError as error:
            raise ConfigError(str(error)) from error
    try:
        return close_package(body, platform_key)
    except DiagnosticsError as error:
        raise ConfigError(str(error)) from error


def platform_key(text: str) -> bytes:
    """Read a diagnostics key: base64 of 32 bytes, or a file that holds it. Raises ConfigError."""
    try:
        path = Path(text)
        given = path.read_text("ascii") if len(text) < 4_096 and path.is_file() else text
        key = base64.b64decode(given.strip(), validate=True)
    except (OSError, ValueError, binascii.Error) as error:
        raise ConfigError("the diagnostics key is not base64; `edgeloop diagnostics keygen` makes a pair") from error
    if len(key) != 32:
        raise ConfigError(f"the diagnostics key has {len(key)} bytes, not 32; give the public one")
    return key


def ask(folder: Path, key: bytes, wait_s: float) -> bytes:
    """Let the running agent of this folder make a package. Raises ConfigError when none answers in time."""
    disk, answer = Disk(durable=False), folder / ANSWER
    disk.remove(answer)
    disk.replace(folder / REQUEST, base64.b64encode(key), 0o600)
    until = time.monotonic() + wait_s
    try:
        while time.monotonic() < until:
            if answer.exists():
                return answer.read_bytes()
            time.sleep(0.05)
    finally:
        disk.remove(folder / REQUEST)
        disk.remove(answer)
    raise ConfigError(f"the agent of {folder} did not answer within {wait_s:g} s; is it hanging?")


def answer_request(agent: Agent, folder: Path, device_id: str) -> bool:
    """Make a package when somebody asked for one; True when it did. Never raises: a call must not suffer from this."""
    request = folder / REQUEST
    if not request.exists():
        return False
    disk = Disk(durable=False)
    try:
        key = platform_key(disk.read(request, REQUEST_BYTES).decode("ascii"))
        disk.remove(request)
        disk.replace(folder / ANSWER, package(of_agent(agent, device_id), key, agent.tee), 0o600)
    except (AgentError, OSError, ValueError) as error:
        log.warning("no diagnostic package was made: %s", error)
        return False
    return True


def _common(slots: Slots, device_id: str) -> dict[str, object]:
    return {
        "format": FORMAT,
        "made": int(time.time()),
        "device_id": device_id,
        "versions": {
            "agent": __version__,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "numpy": numpy.__version__,
            "cryptography": cryptography.__version__,
            "cpus": os.cpu_count(),
        },
        "slots": asdict(slots),
    }


def _trace(ring: TraceRing) -> dict[str, object] | None:
    """The ring as a Chrome trace that Perfetto opens; left out when it is too large or changes all the time."""
    for _ in range(5):
        try:
            text = ring.chrome_json()
        except RuntimeError:  # the frame loop appended meanwhile
            continue
        if len(text) > min(TRACE_BYTES, MOST_PLAIN):
            return {"left_out": f"{len(text)} bytes"}
        found: dict[str, object] = json.loads(text)
        return found
    return None
