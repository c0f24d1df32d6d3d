"""The demo under the compose file: `python -m demo.composed`, the container `demo`.

It starts no process. The platform is the composition's; devices are its containers `fleet` and `agent-*`, which wait
for the file NAME.start in the shared folder and then run from NAME.config.json there. The course of events is that of
`edgeloop demo`, in its short form. Exit status: 0 the loop finished and every promise of the short form held, 1 it did
not, 2 the platform has devices already.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
from rich.console import Console

from contracts.clock import CLOCK_FILE_VARIABLE, SECONDS_PER_DAY, SystemClock, day_of, set_pace
from demo.actors import Actors, World
from demo.errors import DemoError
from demo.ground import Access
from demo.observe import Observer
from demo.play import play
from demo.settings import SHORT, SHORT_MUST_HOLD, DemoSettings
from edgeloop.figures import show
from flows.data.corpus import default_corpus
from flows.errors import FlowError

FOLDER = Path("/demo")
ENROLMENT = Path("/enrolment/token")
WAIT_S, POLL_S = 300.0, 1.0
EXIT_FAILED, EXIT_NOT_EMPTY = 1, 2


@dataclass(frozen=True)
class DeployedGround:
    """`Ground` over a platform that somebody else started: addresses from the environment, secrets from files."""

    base_url: str
    prefect_api_url: str
    secrets: Path
    root: Path
    enrolment: Path = ENROLMENT
    logs: str = "docker compose logs"
    patience_s: float = WAIT_S

    @classmethod
    def from_environment(cls) -> DeployedGround:
        """Read EDGELOOP_BASE_URL, PREFECT_API_URL, EDGELOOP_SECRETS_DIR and EDGELOOP_STATE_DIR. Raises DemoError."""
        names = ("EDGELOOP_BASE_URL", "PREFECT_API_URL", "EDGELOOP_SECRETS_DIR", "EDGELOOP_STATE_DIR")
        missing = [name for name in names if not os.environ.get(name)]
        if missing:
            raise DemoError(f"{', '.join(missing)} not set; start this through docker-compose.yml, service `demo`")
        base, prefect, secrets, root = (os.environ[name] for name in names)
        return cls(base.rstrip("/"), prefect.rstrip("/"), Path(secrets), Path(root))

    @property
    def access(self) -> Access:
        return Access(
            self.base_url, self.prefect_api_url, self._secret("edgeloop_database_url"),
            self._secret("edgeloop_operator_token"), self._secret("edgeloop_service_token"),
            self.enrolment.read_text().strip(),
        )  # fmt: skip

    def start(self) -> Access:
        """Wait until API and Prefect answer. Raises DemoError."""
        self._wait("the API", lambda: _answers(f"{self.base_url}/healthz"))
        self._wait(
            "the flow's deployment", lambda: _answers(f"{self.prefect_api_url}/deployments/name/retrain/retrain")
        )
        self._wait("an enrolment token", self.enrolment.is_file)
        return self.access

    def stop(self) -> None:
        """It was not ours to start."""

    def _secret(self, name: str) -> str:
        path = self.secrets / name
        if not path.is_file():
            raise DemoError(f"the secret {name} is not mounted at {path}")
        return path.read_text().strip()

    def _wait(self, what: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self.patience_s
        while not ready():
            if time.monotonic() > deadline:
                raise DemoError(f"waited {self.patience_s:.0f} s for {what}; see {self.logs}")
            time.sleep(POLL_S)


class Containers(Actors):
    """Devices in containers that others start and restart: each begins when its start file appears."""

    def start(self, name: str, command: Sequence[str], world: World) -> None:
        """Tell the container `name` that its configuration is complete."""
        (world.folder / f"{name}.start").touch()

    def stop(self, patience_s: float = 0.0) -> None:
        """They go on: ending containers is their engine's work."""


def settings() -> DemoSettings:
    """The short form. Waits are long: services may be killed meanwhile. No second act: it restarts devices."""
    return replace(SHORT, patience=5.0)


def clear(folder: Path) -> None:
    """Empty a mounted folder."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def demand_empty(ground: DeployedGround) -> None:
    """Raises DemoError when the platform has devices: simulated time must never reach a platform in use."""
    found = ground.start()
    observer = Observer(found.base_url, found.operator_token, found.prefect_api_url, Path(os.devnull))
    try:
        if observer.devices():
            raise DemoError(
                "the platform has devices already; the demo compresses time and needs an empty one "
                "(docker compose down --volumes removes everything)"
            )
    finally:
        observer.close()


def main() -> int:
    """Play the short form and print its figures."""
    console = Console(width=120)
    try:
        ground = DeployedGround.from_environment()
        demand_empty(ground)
    except DemoError as error:
        console.print(f"[red]error[/] {error}", highlight=False)
        return EXIT_NOT_EMPTY
    clear(FOLDER)
    clock_file = Path(os.environ.get(CLOCK_FILE_VARIABLE) or "/clock/clock.json")
    # midnight to come: for a platform that runs already, time only goes on
    set_pace(clock_file, 1.0, start=SECONDS_PER_DAY * float(day_of(SystemClock().now()) + 1))
    try:
        story = play(FOLDER, settings(), console, ground, Containers(), default_corpus(), clock_file)
    except (DemoError, FlowError) as error:
        console.print(f"[red]error[/] {error}", highlight=False)
        return EXIT_FAILED
    finally:
        set_pace(clock_file, 1.0)
    show(story.figures, as_json=False, console=console, title="Promises of the first turn, short form")
    figures = {figure.id: figure for figure in story.figures}
    broken = [name for name in SHORT_MUST_HOLD if name not in figures or not figures[name].ok]
    console.print(f"loop finished; broken promises: {', '.join(broken) or 'none'}", highlight=False)
    return EXIT_FAILED if broken else 0


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5.0, trust_env=False).is_success
    except httpx.HTTPError:
        return False


if __name__ == "__main__":
    sys.exit(main())
