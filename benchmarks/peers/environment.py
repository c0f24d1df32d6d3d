"""A virtual environment of a peer's own, so that what it needs never meets what the project needs."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class PeerFailed(RuntimeError):
    """A peer could not be installed or run; the message names the command and its last words."""


@dataclass(frozen=True)
class Environment:
    """A folder with an interpreter and the packages asked for."""

    folder: Path

    @property
    def scripts(self) -> Path:
        """Where its commands are."""
        return self.folder / ("Scripts" if sys.platform == "win32" else "bin")

    def run(self, command: str, arguments: Sequence[str], *, folder: Path | None = None, seconds: float = 900.0) -> str:
        """Run one of its commands, in `folder`; its standard output. Raises PeerFailed."""
        return _run([str(self.scripts / command), *arguments], folder, seconds)

    def packages(self) -> dict[str, str]:
        """Name and version of everything installed but the installer itself."""
        listed = self.run("python", ["-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"])
        pairs = (line.split("==", 1) for line in listed.splitlines() if "==" in line)
        return {name: version for name, version in pairs if name not in ("pip", "setuptools", "wheel")}


def environment(folder: Path, requirements: Sequence[str]) -> Environment:
    """Make the environment, or take it as it is when these requirements were installed before."""
    made, stamp = Environment(folder), folder / ".requirements"
    wanted = "\n".join(requirements)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return made
    venv.create(folder, with_pip=True, clear=True)
    made.run("python", ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements])
    stamp.write_text(wanted, encoding="utf-8")
    return made


def layered_environment(folder: Path, requirements: Sequence[str]) -> Environment:
    """An environment that sees this interpreter's packages behind its own, and takes in nothing but what is named.

    For peers that must share the framework under test (torch, ONNX Runtime) and whose own requirements would replace
    it: `pip install --no-deps`. What they lack besides is in the list.
    """
    made, stamp = Environment(folder), folder / ".requirements"
    wanted = "\n".join(("layered", sys.prefix, *requirements))
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return made
    venv.create(folder, with_pip=True, clear=True)
    own = made.run("python", ["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    behind = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    (Path(own) / "layer.pth").write_text("\n".join(behind) + "\n", encoding="utf-8")
    made.run("python", ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *requirements])
    stamp.write_text(wanted, encoding="utf-8")
    return made


def wheel(folder: Path, requirement: str) -> Path:
    """The wheel of one requirement, without what it needs; fetched once. Raises PeerFailed."""
    found = sorted(folder.glob("*.whl"))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        _run([*command, "--only-binary", ":all:", "--dest", str(folder), requirement])
        found = sorted(folder.glob("*.whl"))
    if not found:
        raise PeerFailed(f"pip fetched no wheel of {requirement}; ask a package index that has one")
    return found[0]


def _run(command: list[str], folder: Path | None = None, seconds: float = 900.0) -> str:
    words = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds, cwd=folder, env=words
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerFailed(f"{Path(command[0]).name}: {error}") from error
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()[-5:]
        raise PeerFailed(f"{Path(command[0]).name} left with {done.returncode}: {' | '.join(words)}")
    return done.stdout
