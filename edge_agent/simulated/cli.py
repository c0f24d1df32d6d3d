"""`edgeloop fleet simulate`: a fleet of light devices against a running platform.

Exit status: 0 done, 1 the platform failed, 2 wrong use.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from contracts.device import DeviceTags
from contracts.state import public_key
from edge_agent.containers.cli import down, up
from edge_agent.errors import AgentError, ConfigError
from edge_agent.simulated.device import LightDevice, Surroundings
from edge_agent.simulated.http import LightClient
from edge_agent.simulated.joining import join
from edge_agent.simulated.repository import SharedDocuments, SharedTargets
from edge_agent.simulated.run import LightFleet, Rhythm
from edge_agent.simulated.scenario import SCENARIOS, Behaviour, scenario

EXIT_FAILED, EXIT_USAGE = 1, 2
MOST_DEVICES = 100_000
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Test devices: light simulated ones by the ten thousand, or some in containers.",
)
app.command("up")(up)
app.command("down")(down)


@app.callback()
def fleet() -> None:
    """Test devices: light simulated ones by the ten thousand, or some in containers."""


@app.command(
    epilog="Example: edgeloop fleet simulate --devices 10000 --token $(edgeloop release token --uses 10000) "
    "--misbehave 3f2a=crashing --seconds 300"
)
def simulate(
    token: Annotated[str, typer.Option("--token", envvar="EDGELOOP_ENROLMENT_TOKEN", help="Enrolment token.")],
    devices: Annotated[int, typer.Option(min=1, max=MOST_DEVICES, help="How many.")] = 10_000,
    url: Annotated[str, typer.Option("--platform-url", envvar="EDGELOOP_BASE_URL")] = "http://127.0.0.1:8080",
    seconds: Annotated[float, typer.Option(min=1, help="How long they live.")] = 120.0,
    poll_s: Annotated[float, typer.Option("--poll", min=0.1, help="Seconds between two polls of a device.")] = 30.0,
    classes: Annotated[str, typer.Option(help="Device classes, evenly spread.")] = "npu-2t,npu-4t",
    running: Annotated[str, typer.Option(help="Digest of the bundle that they run from the factory.")] = "",
    misbehave: Annotated[
        list[str] | None,
        typer.Option(help=f"DIGEST-PREFIX=SCENARIO, several times; scenarios: {', '.join(SCENARIOS)}."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same fates.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let light devices join, poll, download by range, try bundles and report, some of them badly."""
    try:
        behaviours = parse_behaviours(misbehave or [])
        tags = [DeviceTags(device_class=name) for name in _spread(classes, devices)]
        found = asyncio.run(_simulate(url, token, tags, running, behaviours, Rhythm(poll_s), seconds, seed))
    except ConfigError as error:
        _fail(str(error), EXIT_USAGE)
    except AgentError as error:
        _fail(str(error), EXIT_FAILED)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        Console().print(f"{name}: {value}", highlight=False)


class PrefixBehaviours(dict[str, Behaviour]):
    """Behaviours by digest, where a prefix of the digest is enough."""

    def get(self, key: str, default: Behaviour | None = None) -> Behaviour | None:  # type: ignore[override]  # narrower
        """The behaviour whose prefix fits."""
        return next((self[prefix] for prefix in self if prefix and key.startswith(prefix)), default)


def parse_behaviours(words: list[str]) -> PrefixBehaviours:
    """`PREFIX=SCENARIO` words. Raises ConfigError."""
    found = PrefixBehaviours()
    for word in words:
        prefix, _, name = word.partition("=")
        if not prefix or not name:
            raise ConfigError(f"--misbehave {word!r}: give DIGEST-PREFIX=SCENARIO")
        found[prefix] = scenario(name)
    return found


async def _simulate(
    url: str,
    token: str,
    tags: list[DeviceTags],
    running: str,
    behaviours: dict[str, Behaviour],
    rhythm: Rhythm,
    seconds: float,
    seed: int,
) -> dict[str, object]:
    client, mail = LightClient(url), LightClient(url)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        job = progress.add_task("joining", total=1.0)
        joined = await join(client, token, tags, running, lambda share: progress.update(job, completed=share))
        documents = SharedDocuments(public_key(joined.state_key))
        around = Surroundings(client, mail, documents, SharedTargets(client), behaviours, Counter(), seed)
        light = LightFleet([LightDevice(ticket, around) for ticket in joined.tickets], rhythm, seed)
        progress.update(job, description="living", completed=0.0)
        light.start()
        for step in range(100):
            await asyncio.sleep(seconds / 100)
            progress.update(job, completed=(step + 1) / 100)
        await light.stop()
        await client.close()
        await mail.close()
    return light.summary()


def _spread(classes: str, devices: int) -> list[str]:
    names = [name.strip() for name in classes.split(",") if name.strip()]
    if not names:
        raise ConfigError("--classes names no device class")
    return [names[index % len(names)] for index in range(devices)]


def _fail(message: str, code: int) -> None:
    Console(stderr=True).print(f"[red]error[/] {message}", highlight=False)
    raise typer.Exit(code)
