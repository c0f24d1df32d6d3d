"""docker-compose.yml as values: the file itself is read, nothing of it is repeated here.

Understood is what the file uses; a key that is not understood is an error, so that the proof never leaves out a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
KNOWN = frozenset({
    "image", "build", "command", "entrypoint", "environment", "secrets", "volumes", "networks", "tmpfs", "user",
    "read_only", "cap_drop", "security_opt", "restart", "healthcheck", "depends_on", "profiles", "ports",
    "stop_grace_period",
})  # fmt: skip
CONDITIONS = frozenset({"service_healthy", "service_completed_successfully", "service_started"})


class CompositionError(Exception):
    """The compose file cannot be used; the message names the service and the key."""


@dataclass(frozen=True)
class Mount:
    """A named volume in a container."""

    volume: str
    target: str
    read_only: bool


@dataclass(frozen=True)
class Build:
    """What an image is made of."""

    dockerfile: str
    base: str


@dataclass(frozen=True)
class Service:
    """One service. `health` is the container's check as an argument list; empty: the image's own, None: no check."""

    name: str
    image: str
    build: Build | None
    entrypoint: tuple[str, ...] | None
    command: tuple[str, ...]
    environment: Mapping[str, str]
    secrets: tuple[str, ...]
    mounts: tuple[Mount, ...]
    networks: tuple[str, ...]
    tmpfs: tuple[str, ...]
    user: str
    read_only: bool
    cap_drop: tuple[str, ...]
    security_opt: tuple[str, ...]
    restart: str
    health: tuple[str, ...] | None
    depends_on: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_job(self) -> bool:
        """Whether it ends by itself."""
        return self.restart == "no"


@dataclass(frozen=True)
class Composition:
    """Services in an order in which each comes after what it depends on; secrets with their files."""

    services: tuple[Service, ...]
    networks: Mapping[str, bool]
    """Name of each network and whether it is internal."""
    volumes: tuple[str, ...]
    secrets: Mapping[str, Path]

    def service(self, name: str) -> Service:
        """The service of that name. Raises KeyError."""
        return next(service for service in self.services if service.name == name)


def read_variables(path: Path) -> dict[str, str]:
    """NAME=VALUE lines of an env file."""
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def read_composition(path: Path, variables: Mapping[str, str]) -> Composition:
    """Read the compose file with `variables` in place. Raises CompositionError."""
    document = filled(yaml.safe_load(path.read_text()), variables)
    profiles = {name for name in variables.get("COMPOSE_PROFILES", "").split(",") if name}
    chosen = {
        name: _service(name, raw)
        for name, raw in document["services"].items()
        if not raw.get("profiles") or profiles & set(raw["profiles"])
    }
    networks = {name: bool((raw or {}).get("internal")) for name, raw in document["networks"].items()}
    secrets = {name: path.parent / raw["file"] for name, raw in document["secrets"].items()}
    return Composition(_ordered(chosen), networks, tuple(document["volumes"]), secrets)


def filled(value: Any, variables: Mapping[str, str]) -> Any:  # Any: YAML
    """Put variables into every string of a document; `$$` is a dollar sign."""
    if isinstance(value, str):
        return VARIABLE.sub(lambda found: _variable(found, variables), value)
    if isinstance(value, list):
        return [filled(item, variables) for item in value]
    if isinstance(value, dict):
        return {key: filled(item, variables) for key, item in value.items()}
    return value


def _variable(found: re.Match[str], variables: Mapping[str, str]) -> str:
    if found[0] == "$$":
        return "$"
    return variables.get(found[1]) or found[2] or ""


def _service(name: str, raw: dict[str, Any]) -> Service:  # Any: YAML
    unknown = set(raw) - KNOWN
    if unknown:
        raise CompositionError(f"service {name}: {', '.join(sorted(unknown))} is not understood here; add it")
    depends = {other: how["condition"] for other, how in (raw.get("depends_on") or {}).items()}
    if set(depends.values()) - CONDITIONS:
        raise CompositionError(f"service {name}: depends_on has a condition that is not understood here")
    build = raw.get("build")
    return Service(
        name=name,
        image=raw["image"],
        build=Build(build["dockerfile"], build["args"]["BASE"]) if build else None,
        entrypoint=tuple(raw["entrypoint"]) if "entrypoint" in raw else None,
        command=tuple(raw.get("command", ())),
        environment={key: str(value) for key, value in (raw.get("environment") or {}).items()},
        secrets=tuple(raw.get("secrets", ())),
        mounts=tuple(_mount(text) for text in raw.get("volumes", ())),
        networks=tuple(raw.get("networks", ())),
        tmpfs=tuple(raw.get("tmpfs", ())),
        user=raw.get("user", ""),
        read_only=bool(raw.get("read_only")),
        cap_drop=tuple(raw.get("cap_drop", ())),
        security_opt=tuple(raw.get("security_opt", ())),
        restart=raw.get("restart", "no"),
        health=_health(raw.get("healthcheck")),
        depends_on=depends,
    )


def _mount(text: str) -> Mount:
    volume, target, *options = text.split(":")
    return Mount(volume, target, "ro" in options)


def _health(raw: dict[str, Any] | None) -> tuple[str, ...] | None:  # Any: YAML
    if raw is None:
        return ()
    if raw.get("disable"):
        return None
    kind, *words = raw["test"]
    return ("sh", "-c", words[0]) if kind == "CMD-SHELL" else tuple(words)


def _ordered(services: Mapping[str, Service]) -> tuple[Service, ...]:
    done: list[Service] = []
    waiting = dict(services)
    while waiting:
        names = {service.name for service in done}
        ready = [service for service in waiting.values() if set(service.depends_on) <= names]
        if not ready:
            raise CompositionError(f"depends_on leads nowhere or in a circle: {', '.join(sorted(waiting))}")
        done.append(ready[0])
        del waiting[ready[0].name]
    return tuple(done)


def health_argument(words: tuple[str, ...]) -> str:
    """A check as podman takes it: a JSON list."""
    return json.dumps(list(words))
