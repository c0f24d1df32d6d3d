"""What has to change so that a fleet of containers is as wanted. No engine in here.

A fleet is a name; device number i of it has the container `edgeloop-NAME-i` and a volume of the same name with its
identity. Doing the same twice changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from edge_agent.errors import ConfigError

FLEET_LABEL, NUMBER_LABEL, SETTINGS_LABEL = "org.edgeloop.fleet", "org.edgeloop.number", "org.edgeloop.settings"
MOST_DEVICES = 64
NAME = re.compile(r"^[a-z0-9][a-z0-9-]{0,31}$")
STATE = "/var/lib/edgeloop-agent"
TOKEN_FILE = f"{STATE}/enrolment-token"
MEDIA = "/media"
ENTRYPOINT = ("sh", "-ec")
"""In place of the image's own: the first word of a command is a line for it."""
LIFE_S = 86_400 * 365


@dataclass(frozen=True)
class FleetWish:
    """What a person asked for. `source` and `factory_bundle` are files of the engine's machine, or both empty."""

    name: str
    devices: int
    image: str
    platform_url: str
    device_classes: tuple[str, ...]
    network: str
    source: str = ""
    factory_bundle: str = ""


@dataclass(frozen=True)
class DeviceSpec:
    """One container: its number, command, labels and read-only files (path on the engine's machine -> in it)."""

    number: int
    name: str
    image: str
    command: tuple[str, ...]
    network: str
    files: Mapping[str, str]
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Found:
    """A container that is there."""

    id: str
    name: str
    number: int
    settings: str
    running: bool
    status: str


@dataclass(frozen=True)
class Changes:
    """What to do: containers to make, start, replace (old, new) and remove; `kept` are right as they are."""

    create: tuple[DeviceSpec, ...]
    start: tuple[Found, ...]
    replace: tuple[tuple[Found, DeviceSpec], ...]
    remove: tuple[Found, ...]
    kept: tuple[Found, ...]

    @property
    def count(self) -> int:
        """Number of steps."""
        return len(self.create) + len(self.start) + len(self.replace) + len(self.remove)


def checked(wish: FleetWish) -> FleetWish:
    """The same wish. Raises ConfigError for a name, number or pair of files that is not one."""
    check_name(wish.name)
    if not 1 <= wish.devices <= MOST_DEVICES:
        raise ConfigError(
            f"--docker {wish.devices}: 1 to {MOST_DEVICES} containers; thousands of devices fit into one process "
            "(edgeloop fleet simulate)"
        )
    if bool(wish.source) != bool(wish.factory_bundle):
        raise ConfigError("--source and --factory-bundle belong together: a device that plays needs both")
    if not wish.device_classes:
        raise ConfigError("--classes names no device class")
    return wish


def check_name(name: str) -> None:
    """Raises ConfigError unless `name` can be part of a container's name."""
    if not NAME.match(name):
        raise ConfigError(f"--name {name!r}: up to 32 small letters, digits and dashes, a letter or digit first")


def container_name(fleet: str, number: int) -> str:
    """Name of the container and of the volume of a device."""
    return f"edgeloop-{fleet}-{number}"


def specs(wish: FleetWish) -> tuple[DeviceSpec, ...]:
    """The containers of a wish."""
    files = {wish.source: f"{MEDIA}/source", wish.factory_bundle: f"{MEDIA}/factory.elb"} if wish.source else {}
    return tuple(_spec(wish, number, files) for number in range(1, wish.devices + 1))


def _spec(wish: FleetWish, number: int, files: Mapping[str, str]) -> DeviceSpec:
    device_class = wish.device_classes[(number - 1) % len(wish.device_classes)]
    own = _playing(wish, device_class) if files else _talking(wish, device_class, number)
    words = f'EDGELOOP_ENROLMENT_TOKEN="$(cat {TOKEN_FILE})" exec "$@"'
    command = (words, "device", *own)
    seen = json.dumps([wish.image, command, wish.network, dict(files)], sort_keys=True)
    labels = {
        FLEET_LABEL: wish.name,
        NUMBER_LABEL: str(number),
        SETTINGS_LABEL: hashlib.sha256(seen.encode()).hexdigest()[:16],
    }
    return DeviceSpec(number, container_name(wish.name, number), wish.image, command, wish.network, files, labels)


def _talking(wish: FleetWish, device_class: str, number: int) -> tuple[str, ...]:
    """A device that joins, polls, downloads and reports, without pictures."""
    words = ("edgeloop", "fleet", "simulate", "--devices", "1", "--classes", device_class)
    return (*words, "--platform-url", wish.platform_url, "--seconds", str(LIFE_S), "--seed", str(number))


def _playing(wish: FleetWish, device_class: str) -> tuple[str, ...]:
    """A whole agent that plays a video again and again."""
    words = ("edgeloop", "agent", "run", "--json", "--loop", "--state-dir", STATE, "--device-class", device_class)
    media = ("--source", f"{MEDIA}/source", "--factory-bundle", f"{MEDIA}/factory.elb")
    return (*words, *media, "--platform-url", wish.platform_url)


def changes(wanted: Sequence[DeviceSpec], found: Sequence[Found]) -> Changes:
    """Compare what is wanted with what is there."""
    there = {device.number: device for device in found}
    create, start, replace, kept = [], [], [], []
    for spec in wanted:
        device = there.pop(spec.number, None)
        if device is None:
            create.append(spec)
        elif device.settings != spec.labels[SETTINGS_LABEL]:
            replace.append((device, spec))
        elif device.running:
            kept.append(device)
        else:
            start.append(device)
    spare = sorted(there.values(), key=lambda device: device.number)
    return Changes(tuple(create), tuple(start), tuple(replace), tuple(spare), tuple(kept))


def as_json(devices: Sequence[Found]) -> list[dict[str, object]]:
    """Devices for a program to read."""
    return [asdict(device) for device in sorted(devices, key=lambda device: device.number)]
