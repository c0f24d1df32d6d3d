"""podman with runc, in a network namespace of its own: real networks, none of which leads out of this process' world.

Needs root. There is no systemd here, so health checks run when asked for (`healthy`), and names are resolved by hosts
entries with fixed addresses instead of a DNS server.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.prove.composition import Composition, Service, health_argument

PREFIX = "prove"
DRIVER = "overlay" if "\toverlay" in Path("/proc/filesystems").read_text() else "vfs"
"""vfs copies a whole image for each container: 25 GB here, and minutes a container."""
SUBNET = "10.89.{number}.0/24"
FIRST_SUBNET, FIRST_HOST = 70, 10
CONFIGURATION = """[containers]
default_ulimits=[]
cgroups="no-conmon"
[engine]
runtime="runc"
cgroup_manager="cgroupfs"
events_logger="file"
[network]
network_backend="cni"
cni_plugin_dirs=["/usr/lib/cni", "/opt/cni/bin"]
network_config_dir="{folder}/networks"
"""


class EngineError(Exception):
    """podman did not do it; the message holds its last words."""


@dataclass(frozen=True)
class Addresses:
    """Fixed addresses: network k is 10.89.(70+k).0/24, service i has host number 10+i in each of its networks."""

    composition: Composition

    def subnet(self, network: str) -> str:
        """Addresses of a network."""
        return SUBNET.format(number=FIRST_SUBNET + list(self.composition.networks).index(network))

    def of(self, service: Service, network: str) -> str:
        """Address of a service in one of its networks."""
        number = FIRST_HOST + [other.name for other in self.composition.services].index(service.name)
        return self.subnet(network).replace(".0/24", f".{number}")

    def seen_from(self, service: Service) -> dict[str, str]:
        """Every other service that `service` can reach, by name."""
        found = {}
        for other in self.composition.services:
            shared = [network for network in service.networks if network in other.networks]
            if shared and other.name != service.name:
                found[other.name] = self.of(other, shared[0])
        return found


def container(name: str) -> str:
    """Name of a service's container."""
    return f"{PREFIX}-{name}"


def arguments(service: Service, composition: Composition, addresses: Addresses) -> list[str]:
    """Words after `podman run` for a service: what compose would ask an engine for."""
    words = ["--detach", "--name", container(service.name), "--hostname", service.name, "--pull", "never"]
    for network in service.networks:
        words += ["--network", f"{PREFIX}-{network}:ip={addresses.of(service, network)}"]
    for name, address in addresses.seen_from(service).items():
        words += ["--add-host", f"{name}:{address}"]
    words += ["--read-only"] if service.read_only else []
    words += [f"--cap-drop={name}" for name in service.cap_drop]
    words += [f"--security-opt={option.removesuffix(':true')}" for option in service.security_opt]
    words += [word for entry in service.tmpfs for word in ("--tmpfs", entry)]
    words += ["--user", service.user] if service.user else []
    words += [word for pair in service.environment.items() for word in ("--env", "=".join(pair))]
    for mount in service.mounts:
        words += ["--volume", f"{PREFIX}-{mount.volume}:{mount.target}{':ro' if mount.read_only else ''}"]
    for name in service.secrets:
        words += ["--volume", f"{composition.secrets[name].resolve()}:/run/secrets/{name}:ro"]
    words += ["--restart", service.restart]
    if service.health is None:
        words += ["--no-healthcheck"]
    elif service.health:
        words += ["--health-cmd", health_argument(service.health), "--health-interval", "disable"]
    command = list(service.command)
    if service.entrypoint is not None:
        words += ["--entrypoint", health_argument(service.entrypoint)]
    return [*words, service.image, *command]


class Engine:
    """podman over a folder that holds its store, networks and configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        (self.folder / "networks").mkdir(parents=True, exist_ok=True)
        configuration = self.folder / "containers.conf"
        configuration.write_text(CONFIGURATION.format(folder=self.folder))
        self._environment = {**os.environ, "CONTAINERS_CONF": str(configuration)}
        self._storage = [
            "--root", str(self.folder / "store"), "--runroot", str(self.folder / "run"), "--storage-driver", DRIVER,
        ]  # fmt: skip

    def podman(self, *words: str, check: bool = True, timeout_s: float = 300.0, stdin: str | None = None) -> str:
        """Run podman and return what it printed. Raises EngineError."""
        return self._run(["podman", *self._storage, *words], check, timeout_s, stdin)

    def build(self, dockerfile: str, tag: str, base: str, context: Path, log: Path) -> None:
        """Build an image with buildah; the build's words go to `log`. Raises EngineError."""
        words = ["buildah", *self._storage, "bud", "--isolation", "chroot", "--format", "docker", "--squash"]
        words += ["--build-arg", f"BASE={base}", "--build-arg", "PIP_ARGS=--no-index", "-f", dockerfile, "-t", tag, "."]
        with log.open("w") as sink:
            done = subprocess.run(
                words, stdout=sink, stderr=sink, cwd=context, env=self._environment, check=False, timeout=3_600
            )
        if done.returncode != 0:
            raise EngineError(f"{dockerfile} could not be built; see {log}")

    def running(self, name: str) -> bool:
        """Whether a service's container runs."""
        told = self.podman("container", "inspect", "--format", "{{.State.Running}}", container(name), check=False)
        return told.strip() == "true"

    def pid(self, name: str) -> int:
        """Process id of a container's first process; 0 when it does not run."""
        told = self.podman("container", "inspect", "--format", "{{.State.Pid}}", container(name), check=False).strip()
        return int(told) if told.isdigit() else 0

    def exit_code(self, name: str) -> int | None:
        """Exit status of a container that ended; None while it runs."""
        if self.running(name):
            return None
        return int(self.podman("container", "inspect", "--format", "{{.State.ExitCode}}", container(name)).strip())

    def healthy(self, name: str) -> bool:
        """Run a container's health check once."""
        words = ["podman", *self._storage, "healthcheck", "run", container(name)]
        try:
            done = subprocess.run(words, capture_output=True, env=self._environment, check=False, timeout=30)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def kill(self, name: str) -> None:
        """End a container's first process as a crash would: the engine's restart policy has to bring it back."""
        pid = self.pid(name)
        if pid:
            os.kill(pid, signal.SIGKILL)

    def logs(self, name: str) -> str:
        """What a container wrote."""
        words = ["podman", *self._storage, "logs", container(name)]
        done = subprocess.run(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self._environment, check=False
        )
        return done.stdout

    def volume(self, name: str) -> Path:
        """Where a volume lies on this machine."""
        return Path(self.podman("volume", "inspect", "--format", "{{.Mountpoint}}", f"{PREFIX}-{name}").strip())

    def remove(self, composition: Composition) -> None:
        """Remove every container, network and volume of the composition; images stay."""
        for service in reversed(composition.services):
            self.podman("rm", "--force", "--time", "5", container(service.name), check=False)
        for network in composition.networks:
            self.podman("network", "rm", "--force", f"{PREFIX}-{network}", check=False)
        for volume in composition.volumes:
            self.podman("volume", "rm", "--force", f"{PREFIX}-{volume}", check=False)

    def _run(self, words: Sequence[str], check: bool, timeout_s: float, stdin: str | None) -> str:
        done = subprocess.run(
            words, capture_output=True, text=True, env=self._environment, check=False, timeout=timeout_s, input=stdin
        )
        if check and done.returncode != 0:
            raise EngineError(f"{' '.join(words[7:10])}: {done.stderr.strip()[-600:]}")
        return done.stdout


def until(ready: Callable[[], bool], what: str, limit_s: float, poll_s: float = 1.0) -> float:
    """Wait until `ready()` is true; returns the seconds. Raises EngineError."""
    began = time.monotonic()
    while not ready():
        if time.monotonic() - began > limit_s:
            raise EngineError(f"waited {limit_s:.0f} s for {what}")
        time.sleep(poll_s)
    return time.monotonic() - began
