"""`edgeloop`, and `python -m edgeloop` in a checkout: a small root that loads a part when its command is called."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from edgeloop.commands import Command, commands


class LazyGroup(TyperGroup):
    """Lists commands from the table; imports one only to run it (or to show its own help)."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # typer carries its own click
        """Names of the commands that this installation can run."""
        return [name for name, command in commands().items() if not command.missing()]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]  # see above
        """A stand-in with the summary; `resolve_command` puts the real one in its place."""
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        command = commands().get(cmd_name)
        return None if command is None else _summary_only(command)

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]  # see above
        """Load the part that the first word names, then go on as usual."""
        command = commands().get(args[0]) if args else None
        if command is not None:
            self.commands[command.name] = load(command)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="EdgeLoop: keep real-time video models on NPU devices good.",
)


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """EdgeLoop: keep real-time video models on NPU devices good."""
    if version:
        typer.echo(_version())
        raise typer.Exit


def load(command: Command) -> Any:  # Any: typer carries its own click
    """The command itself. Leaves with code 2 and the remedy when its extra is not installed."""
    absent = command.missing()
    if absent:
        typer.echo(
            f"edgeloop {command.name} needs {', '.join(absent)}; install it: pip install 'edgeloop[{command.extra}]'",
            err=True,
        )
        raise typer.Exit(2)
    loaded = command.load()
    if not isinstance(loaded, typer.Typer):
        function, loaded = loaded, typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
        loaded.command(command.name)(function)
    made = typer.main.get_command(loaded)
    made.name = command.name
    return made


def _summary_only(command: Command) -> Any:  # Any: typer carries its own click
    stand_in = typer.Typer(add_completion=False)

    def nothing() -> None:
        return None

    stand_in.command(command.name, help=command.summary or f"See edgeloop {command.name} --help.")(nothing)
    made = typer.main.get_command(stand_in)
    made.name = command.name
    return made


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("edgeloop")
    except PackageNotFoundError:
        return "checkout"


def main() -> None:
    """Entry point."""
    app(prog_name="edgeloop")


if __name__ == "__main__":
    main()
