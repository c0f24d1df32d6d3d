"""The root of the command line: light, lazy, and clear about what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from edgeloop import __main__ as root
from edgeloop import commands as table
from edgeloop.commands import Command

RUN = CliRunner()
HERE = Path(__file__).resolve().parents[2]


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of our own: one command that works, one whose extra is absent."""
    known = (
        Command("greet", "tests.edgeloop.test_root:greet", "Say hello."),
        Command("absent", "tests.nowhere:app", "Never.", "edge", ("no_such_module_at_all",)),
    )
    monkeypatch.setattr(table, "BUILT_IN", known)
    monkeypatch.setattr(table, "entry_points", lambda group: [])


def greet(name: str, loud: bool = False) -> None:
    """Say hello to somebody."""
    typer.echo(f"hello {name}".upper() if loud else f"hello {name}")


def test_the_root_imports_no_part_of_ours() -> None:
    code = (
        "import sys, edgeloop.__main__\n"
        "parts = {'contracts', 'compiler', 'edge_agent', 'services', 'flows', 'embedded', 'demo'}\n"
        "sys.exit(bool(parts & {name.split('.')[0] for name in sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=HERE).returncode == 0


@pytest.mark.usefixtures("only")
def test_help_lists_the_commands_that_can_run_without_loading_them() -> None:
    said = RUN.invoke(root.app, ["--help"]).output
    assert "Say hello." in said
    assert "absent" not in said


@pytest.mark.usefixtures("only")
def test_a_function_becomes_a_command_with_its_own_options() -> None:
    assert RUN.invoke(root.app, ["greet", "ada", "--loud"]).output == "HELLO ADA\n"
    assert "Say hello to somebody." in RUN.invoke(root.app, ["greet", "--help"]).output


@pytest.mark.usefixtures("only")
def test_a_command_without_its_extra_says_what_to_install() -> None:
    done = RUN.invoke(root.app, ["absent"])
    assert done.exit_code == 2
    assert "pip install 'edgeloop[edge]'" in done.output


@pytest.mark.usefixtures("only")
def test_an_unknown_command_is_refused() -> None:
    assert RUN.invoke(root.app, ["nonsense"]).exit_code == 2


@pytest.mark.parametrize("command", table.BUILT_IN, ids=lambda command: command.name)
def test_every_built_in_command_exists(command: Command) -> None:
    assert callable(command.load())
