"""What every operator command of a service shares: where the platform is, and how its refusals become exit codes.

Address and token come from the options, else from `platform.json` in the state folder of `edgeloop up`. Exit status: 1
the platform refused or is not reachable, 2 no platform is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from services.kit.clients import ServiceClient, ServiceError

StateOption = Annotated[Path, typer.Option("--state", envvar="EDGELOOP_STATE_DIR", help="The platform's state folder.")]
UrlOption = Annotated[str, typer.Option("--url", envvar="EDGELOOP_BASE_URL", help="Address of the platform.")]
TokenOption = Annotated[str, typer.Option("--token", envvar="EDGELOOP_OPERATOR_TOKEN", help="Operator token.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

EXIT_REFUSED, EXIT_USAGE = 1, 2
DEFAULT_STATE = Path(".edgeloop")


@contextmanager
def platform_client(service: str, state: Path, url: str, token: str) -> Iterator[ServiceClient]:
    """A client of one service of the platform; leaves with EXIT_REFUSED or EXIT_USAGE and one line."""
    known = _described(state / "platform.json")
    base, secret = url or known.get("base_url", ""), token or known.get("operator_token", "")
    if not base or not secret:
        fail(f"no platform in {state}: start one with `edgeloop up`, or give --url and --token", EXIT_USAGE)
    try:
        with ServiceClient(f"{base.rstrip('/')}/{service}", secret) as client:
            yield client
    except ServiceError as problem:
        fail(str(problem), EXIT_REFUSED)


def fail(message: str, code: int) -> NoReturn:
    """Say what went wrong on standard error, and leave."""
    Console(stderr=True).print(f"[red]error[/] {message}", highlight=False)
    raise typer.Exit(code)


def _described(path: Path) -> dict[str, str]:
    try:
        document: dict[str, str] = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        fail(f"{path} is not readable ({problem}); give --url and --token", EXIT_USAGE)
    return document
