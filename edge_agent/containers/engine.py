"""Containers over the Docker SDK (extra `docker`); a podman socket serves too.

The enrolment token goes into the device's volume as a file of mode 0400: neither the container's environment nor its
arguments hold it.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from edge_agent.containers.plan import (
    ENTRYPOINT,
    FLEET_LABEL,
    NUMBER_LABEL,
    SETTINGS_LABEL,
    STATE,
    TOKEN_FILE,
    DeviceSpec,
    Found,
)
from edge_agent.errors import AgentError

USER_ID = 65532
STOP_S, TIMEOUT_S = 10, 60
MEMORY, PROCESSES = "1g", 256


class EngineError(AgentError):
    """The container engine is not there or did not do it; the message names what and the remedy."""


class ContainerEngine(Protocol):
    """What a fleet of containers needs of an engine."""

    def list(self, fleet: str) -> list[Found]:
        """Containers of a fleet."""

    def create(self, spec: DeviceSpec, token: str) -> None:
        """Make a device's container and volume, give it its token and start it."""

    def start(self, device: Found) -> None:
        """Start a container that stands still."""

    def remove(self, device: Found, *, state: bool) -> None:
        """End and remove a container, with its volume when `state`."""

    def forget(self, fleet: str) -> None:
        """Remove every volume of a fleet."""


class SdkEngine:
    """`ContainerEngine` over `docker.from_env()`: DOCKER_HOST and its relatives say which engine."""

    def __init__(self, client: Any) -> None:  # Any: docker.DockerClient, an optional extra
        self._client = client

    @classmethod
    def from_environment(cls) -> SdkEngine:
        """Connect. Raises EngineError when the SDK is missing or no engine answers."""
        try:
            import docker  # type: ignore[import-untyped]
        except ImportError as error:
            raise EngineError("the Docker SDK is not installed; pip install 'edgeloop[docker]'") from error
        host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        try:
            client = docker.from_env(timeout=TIMEOUT_S)
            client.ping()
        except Exception as error:  # the SDK lets requests' and its own errors through
            words = f"no container engine answers at {host} ({type(error).__name__})"
            raise EngineError(f"{words}; start Docker, or set DOCKER_HOST to a podman socket") from error
        return cls(client)

    def list(self, fleet: str) -> list[Found]:
        with _told("list containers"):
            rows = self._client.containers.list(all=True, filters={"label": f"{FLEET_LABEL}={fleet}"})
            return [_found(row) for row in rows]

    def create(self, spec: DeviceSpec, token: str) -> None:
        with _told(f"start {spec.name}", spec.image):
            self._client.volumes.create(name=spec.name, labels=dict(spec.labels))
            mounts = {spec.name: {"bind": STATE, "mode": "rw"}}
            mounts |= {path: {"bind": target, "mode": "ro"} for path, target in spec.files.items()}
            made = self._client.containers.create(
                spec.image,
                command=list(spec.command),
                entrypoint=list(ENTRYPOINT),
                name=spec.name,
                labels=dict(spec.labels),
                network=spec.network,
                volumes=mounts,
                tmpfs={"/tmp": "size=256m,mode=1777"},  # noqa: S108  # in the container
                read_only=True,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                mem_limit=MEMORY,
                pids_limit=PROCESSES,
                restart_policy={"Name": "unless-stopped"},
                healthcheck={"test": ["NONE"]},
            )
            made.put_archive(STATE, _archive(TOKEN_FILE.rpartition("/")[2], token))
            made.start()

    def start(self, device: Found) -> None:
        with _told(f"start {device.name}"):
            self._client.containers.get(device.id).start()

    def remove(self, device: Found, *, state: bool) -> None:
        with _told(f"remove {device.name}"):
            container = self._client.containers.get(device.id)
            container.stop(timeout=STOP_S)
            container.remove(force=True)
            if state:
                self._client.volumes.get(device.name).remove(force=True)

    def forget(self, fleet: str) -> None:
        with _told("remove volumes"):
            for volume in self._client.volumes.list(filters={"label": f"{FLEET_LABEL}={fleet}"}):
                volume.remove(force=True)


@contextmanager
def _told(what: str, image: str = "") -> Iterator[None]:
    """Errors of the SDK as ours, with a remedy."""
    from docker.errors import DockerException, ImageNotFound  # type: ignore[import-untyped]
    from requests.exceptions import RequestException

    try:
        yield
    except ImageNotFound as error:
        build = f"docker build -f deploy/docker/agent.Dockerfile -t {image} ."
        raise EngineError(f"there is no image {image}; build it with `{build}`, or give --image") from error
    except (DockerException, RequestException) as error:
        raise EngineError(f"the engine could not {what}: {str(error)[:300]}") from error


def _found(row: Any) -> Found:  # Any: docker's Container
    labels = row.labels
    number = labels.get(NUMBER_LABEL, "0")
    return Found(
        id=row.id,
        name=row.name,
        number=int(number) if number.isdigit() else 0,
        settings=labels.get(SETTINGS_LABEL, ""),
        running=row.status == "running",
        status=row.status,
    )


def _archive(name: str, text: str) -> bytes:
    """A tar with one file that only the device's user can read."""
    data, buffer = text.encode(), io.BytesIO()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.uid, entry.gid = len(data), 0o400, USER_ID, USER_ID
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
