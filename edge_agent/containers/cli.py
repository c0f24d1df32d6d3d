"""`edgeloop fleet up --docker N` and `edgeloop fleet down`.

Exit status: 0 done, 1 the engine failed or there is none, 2 wrong use.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from edge_agent.containers.engine import SdkEngine
from edge_agent.containers.fleet import Tell, bring_up, take_down
from edge_agent.containers.plan import FleetWish, as_json
from edge_agent.errors import AgentError, ConfigError

EXIT_FAILED, EXIT_USAGE = 1, 2
IMAGE = "edgeloop/agent:0.1.0"

FleetName = Annotated[str, typer.Option("--name", help="Name of the fleet: containers edgeloop-NAME-1, -2, ...")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def up(
    devices: Annotated[int, typer.Option("--docker", metavar="N", help="How many containers, 1 to 64.")],
    token: Annotated[str, typer.Option("--token", envvar="EDGELOOP_ENROLMENT_TOKEN", help="Enrolment token.")],
    url: Annotated[str, typer.Option("--platform-url", envvar="EDGELOOP_BASE_URL")] = "http://127.0.0.1:8080",
    name: FleetName = "test",
    image: Annotated[str, typer.Option(help="Image of the agent.")] = IMAGE,
    classes: Annotated[str, typer.Option(help="Device classes, evenly spread.")] = "npu-4t,npu-2t",
    network: Annotated[str, typer.Option(help="Network of the engine; host: the machine's own.")] = "host",
    source: Annotated[Path | None, typer.Option(help="Video that each device plays again and again.")] = None,
    factory_bundle: Annotated[Path | None, typer.Option(help="Built-in bundle of devices that play.")] = None,
    json_: AsJson = False,
) -> None:
    """Start test devices in containers, exactly N: a second call changes what differs, and nothing else.

    Without --source a device joins, polls, downloads and reports; with --source and --factory-bundle it is a whole
    agent. Identities are in volumes and outlive a restart.

    Examples: edgeloop fleet up --docker 3 --token $(edgeloop release token --uses 3) ·
    edgeloop fleet up --docker 2 --name lab --network edgeloop_outside --platform-url http://api:8080 --token TOKEN ·
    DOCKER_HOST=unix:///run/podman/podman.sock edgeloop fleet up --docker 1 --source talk.mp4 --factory-bundle base.elb
    """
    with _clean_exit():
        wish = FleetWish(
            name,
            devices,
            image,
            url,
            tuple(word.strip() for word in classes.split(",") if word.strip()),
            network,
            _file(source, "--source"),
            _file(factory_bundle, "--factory-bundle"),
        )
        with _progress() as tell:
            engine = SdkEngine.from_environment()
            done = bring_up(engine, wish, token, tell)
            found = engine.list(name)
    if json_:
        print(json.dumps({"fleet": name, "changed": done.count, "devices": as_json(found)}, indent=2))
        return
    running = sum(device.running for device in found)
    steps = {"made": done.create, "started": done.start, "replaced": done.replace, "removed": done.remove}
    words = ", ".join(f"{len(devices)} {how}" for how, devices in steps.items())
    Console().print(f"fleet {name}: {running} of {len(found)} devices run; {words}", highlight=False)


def down(
    name: FleetName = "test",
    keep_state: Annotated[bool, typer.Option("--keep-state", help="Leave the devices' identities.")] = False,
    json_: AsJson = False,
) -> None:
    """Remove every container of a fleet, and its devices' identities unless --keep-state.

    Examples: edgeloop fleet down · edgeloop fleet down --name lab --keep-state --json
    """
    with _clean_exit(), _progress() as tell:
        removed = take_down(SdkEngine.from_environment(), name, keep_state=keep_state, tell=tell)
    if json_:
        print(json.dumps({"fleet": name, "removed": [device.name for device in removed]}, indent=2))
        return
    Console().print(f"fleet {name}: {len(removed)} removed", highlight=False)


@contextmanager
def _progress() -> Iterator[Tell]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        job = progress.add_task("asking the engine", total=1.0)
        yield lambda words, share: progress.update(job, description=words, completed=share)


@contextmanager
def _clean_exit() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        _fail(str(error), EXIT_USAGE)
    except AgentError as error:
        _fail(str(error), EXIT_FAILED)


def _file(path: Path | None, option: str) -> str:
    if path is None:
        return ""
    if not path.is_file():
        raise ConfigError(f"{option} {path} is not a file")
    return str(path.resolve())


def _fail(message: str, code: int) -> None:
    Console(stderr=True).print(f"[red]error[/] {escape(message)}", highlight=False)
    raise typer.Exit(code)
