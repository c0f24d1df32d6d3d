"""`python -m deploy.prove`: build the images and bring up docker-compose.yml with podman, alone on its own networks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from deploy.prove.composition import Composition, read_composition, read_variables
from deploy.prove.engine import Engine, EngineError
from deploy.prove.figures import image_figures, loop_figures
from deploy.prove.killing import Kill
from deploy.prove.loop import keep_logs, run_loop
from edgeloop.figures import frame, show
from services.operations.bootstrap import BootstrapError, new_secrets

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yml"
BASE, SERVERS = "localhost/prove/python:bookworm", "localhost/prove/servers:1"
IMAGES = {"POSTGRES_IMAGE": SERVERS, "REDIS_IMAGE": SERVERS, "OBJECTSTORE_IMAGE": SERVERS, "PYTHON_IMAGE": BASE}
INSIDE = "EDGELOOP_PROVE_INSIDE"
MUST_BE_ROOT = "needs root: it makes networks and runs containers; nothing of it is installed on this machine"

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False, help=__doc__)
Folder = Annotated[Path, typer.Argument(help="Folder with the container store (see bases.sh).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
console = Console(stderr=True, width=140)


@app.command(epilog="Example: deploy/prove/bases.sh build/prove && python -m deploy.prove images build/prove")
def images(
    folder: Folder,
    only: Annotated[list[str] | None, typer.Option(help="Build this one (agent, services, flows) alone.")] = None,
    as_json: AsJson = False,
) -> None:
    """Build every image of the compose file; print sizes and users."""
    engine, found = Engine(folder), composition()
    builds = {service.image: service.build for service in found.services if service.build is not None}
    builds = {image: build for image, build in builds.items() if not only or any(f"/{name}:" in image for name in only)}
    sizes, users = {}, {}
    for image, build in sorted(builds.items()):
        began = time.monotonic()
        say(f"building {image} from {build.dockerfile}")
        name = Path(build.dockerfile).name.removesuffix(".Dockerfile")
        try:
            engine.build(build.dockerfile, f"localhost/{image}", build.base, ROOT, engine.folder / f"build-{name}.log")
        except EngineError as error:
            fail(str(error))
        say(f"built {image} in {time.monotonic() - began:.0f} s")
        told = engine.podman("image", "inspect", "--format", "{{.Size}} {{.User}}", f"localhost/{image}").split()
        sizes[name], users[name] = int(told[0]), told[1] if len(told) > 1 else ""
    raise typer.Exit(show(image_figures(sizes, users), as_json=as_json, console=Console(), title="Images"))


@app.command(epilog="Example: python -m deploy.prove loop build/prove --kill --logs build/prove/logs --json")
def loop(
    folder: Folder,
    kill: Annotated[bool, typer.Option("--kill", help="Kill every service once while the loop runs.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave containers and volumes; `down` removes them.")] = False,
    logs: Annotated[Path | None, typer.Option(help="Keep logs and the report here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Bring everything up, run the demo to a finished loop, count what was acknowledged; then remove it."""
    alone()
    engine, found = Engine(folder), composition()
    engine.remove(found)
    try:
        outcome = run_loop(engine, found, kill, say)
    except EngineError as error:
        fail(str(error))
    finally:
        keep_logs(engine, found, (logs or engine.folder / "logs").resolve())
        if not keep:
            engine.remove(found)
    figures = loop_figures(outcome, kill)
    if as_json:
        print(json.dumps({**frame(figures), "kills": [asdict(one) for one in outcome.kills], "users": outcome.users}))
        raise typer.Exit(0 if all(figure.ok for figure in figures) else 1)
    if kill:
        Console().print(kill_table(outcome.kills))
    raise typer.Exit(show(figures, as_json=False, console=Console(), title="docker-compose.yml under podman"))


@app.command(epilog="Example: python -m deploy.prove down build/prove")
def down(folder: Folder) -> None:
    """Remove containers, networks and volumes of a kept run; images stay."""
    Engine(folder).remove(composition())


def composition() -> Composition:
    """The compose file as `docker compose up` reads it, with stand-in images; secrets are made if there are none."""
    secrets = FILE.parent / "deploy" / "compose" / "secrets"
    if not secrets.is_dir():
        try:
            new_secrets(secrets)
        except BootstrapError as error:
            fail(str(error))
    return read_composition(FILE, {**read_variables(FILE.parent / ".env"), **IMAGES})


def alone() -> None:
    """Go on in a network and mount namespace of our own, where only loopback and the containers are."""
    if os.geteuid() != 0:
        fail(MUST_BE_ROOT)
    if os.environ.get(INSIDE):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    words = [sys.executable, "-m", "deploy.prove", *sys.argv[1:]]
    os.execvpe("unshare", ["unshare", "--net", "--mount", *words], {**os.environ, INSIDE: "1"})  # noqa: S606


def kill_table(kills: list[Kill]) -> Table:
    """Who was killed when and how it came back."""
    table = Table("service", "killed in phase", "started again by", "healthy after, s", title="Kills")
    for one in kills:
        table.add_row(one.service, one.phase, one.started_by, f"{one.back_s:.1f}")
    return table


def say(line: str) -> None:
    """A line of progress."""
    console.print(f"{time.strftime('%H:%M:%S')} {line}", highlight=False, markup=False)


def fail(message: str) -> NoReturn:
    """Print an error and end with 1."""
    console.print(f"error {message}", highlight=False, markup=False, style="red")
    raise typer.Exit(1)


if __name__ == "__main__":
    app()
