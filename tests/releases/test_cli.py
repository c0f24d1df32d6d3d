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


def test_a_rule_is_read_back_in_its_normal_spelling_or_refused_with_a_mark_under_the_place() -> None:
    good = runner.invoke(app, ["rule", "model in ('B3',\"a12\")  and not version < '1.4'"])
    assert good.output.strip() == 'device_class in ("a12", "b3") and not version < "1.4"'
    bad = runner.invoke(app, ["rule", 'region == "eu" and netwrk == "weak"'])
    assert bad.exit_code == 2
    *_, text, mark = [line for line in bad.output.splitlines() if line.strip()]
    assert text[mark.index("^") :].startswith("netwrk")
    assert "did you mean network?" in mark


def test_a_release_by_rule_and_layer_is_started_and_shown(world: World, state: Path) -> None:
    world.enrol(40, OLD, network="good")
    world.enrol(4, OLD, network="weak")
    digest = world.register()
    run(state, "layers", "--add", "denoise")
    rule = 'network != "weak"'
    assert 'the rule wants network != "weak"' in run(state, "start", digest, "--rule", rule, "--check")
    made = run(state, "start", digest, "--rule", rule, "--layer", "denoise=50", "--json")
    rollout = json.loads(made)
    assert (rollout["rule"], rollout["layer_slice"]) == (rule, [0, 5_000])
    shown = run(state, "show", rollout["id"])
    assert rule in shown
    assert "layer: denoise, buckets 0 to 5000" in shown
    assert rollout["id"] in run(state, "layers")
    run(state, "start", digest, "--layer", "denoise=120", code=2)
    run(state, "start", digest, "--layer", "denoise", code=2)
    run(state, "start", digest, "--rule", "network = weak", code=2)
