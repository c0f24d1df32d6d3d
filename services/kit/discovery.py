"""The services of this platform, and how their parts are found.

This is the one list of names. A part that does not exist (a service without tasks) is passed over; any other import
error is an error.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType

import structlog

SERVICES = ("telemetry", "curation", "drift", "builds", "releases", "identity", "claims")
DASHBOARD = "dashboard"

log = structlog.get_logger(__name__)


def part(service: str, name: str) -> ModuleType | None:
    """Module `services.<service>.<name>`, or None (logged) where the service has no such part."""
    module = f"services.{service}.{name}"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        log.info("part_absent", module=module)
        return None


def parts(name: str, services: tuple[str, ...] = (*SERVICES, DASHBOARD)) -> Iterator[tuple[str, ModuleType]]:
    """`(service, module)` of every service that has the part `name`."""
    for service in services:
        module = part(service, name)
        if module is not None:
            yield service, module
