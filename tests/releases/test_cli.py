"""`edgeloop release` against the running application."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from services.releases.cli import app
from tests.releases.conftest import OLD
from tests.releases.world import World, bundle_bytes
from tests.support.http import LiveServer

runner = CliRunner()


@pytest.fixture
def state(world: World, live_server: LiveServer, tmp_path: Path) -> Iterator[Path]:
    """A state folder with the `platform.json` that `edgeloop up` leaves; the server's logs stay out of the way."""
    folder = tmp_path / "state"
    folder.mkdir()
    described = {"base_url": live_server.url, "operator_token": world.operator}
    (folder / "platform.json").write_text(json.dumps(described))
    with capture_logs():
        yield folder


def run(state: Path, *words: str, code: int = 0) -> str:
    result = runner.invoke(app, [*words, "--state", str(state)])
    assert result.exit_code == code, result.output
    return result.output


def test_an_operator_adds_starts_watches_and_takes_back_a_release(world: World, state: Path, tmp_path: Path) -> None:
    world.enrol(10, OLD)
    file = tmp_path / "new.elb"
    file.write_bytes(bundle_bytes(tmp_path, version="9.9"))
    digest = json.loads(run(state, "add", str(file), "--json"))["digest"]
    assert digest[:12] in run(state, "bundles")
    rollout = json.loads(run(state, "start", digest[:12], "--soak-hours", "1", "--json"))["id"]
    assert rollout in run(state, "list")
    assert "9.9" in run(state, "show", rollout)
    assert json.loads(run(state, "pause", rollout, "--json"))["state"] == "paused"
    assert "paused" in run(state, "show", rollout, "--wait", code=4)
    assert json.loads(run(state, "resume", rollout, "--json"))["state"] == "running"
    taken = json.loads(run(state, "rollback", rollout, "-m", "looks wrong", "--json"))
    assert (taken["state"], taken["cause"]) == ("rolled_back", "looks wrong")
    run(state, "show", rollout, "--wait", code=3)
    assert taken["human_actions"] == 4


def test_a_refusal_says_why_and_leaves_with_one(world: World, state: Path) -> None:
    output = run(state, "show", "r-nothing", code=1)
    assert "there is no rollout" in output
    assert "begin with 'abc'" in run(state, "start", "abc", code=2)


def test_the_kill_switch_and_its_lifting(world: World, state: Path) -> None:
    device = world.enrol(1, OLD)[0]
    run(state, "kill", "-m", "smoke in the lab")
    assert world.state(device).killed
    run(state, "kill", "-m", "it was the toaster", "--lift")
    assert not world.state(device).killed


def test_an_enrolment_token_is_printed_alone(world: World, state: Path) -> None:
    assert len(run(state, "token", "--uses", "3").strip()) >= 32


def test_without_a_platform_the_remedy_is_named(tmp_path: Path) -> None:
    result = runner.invoke(app, ["list", "--state", str(tmp_path)])
    assert result.exit_code == 2
    assert "edgeloop up" in result.output
