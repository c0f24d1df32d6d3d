"""`edgeloop curate` against the running application."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs
from typer.testing import CliRunner

from services.curation import cli, runs, service
from services.curation.limits import CurationLimits
from services.kit.database import transaction
from services.kit.settings import Settings
from tests.curation.test_pipeline import NOW, SETTINGS, standing_clock, upload  # noqa: F401  # a fixture
from tests.support.http import LiveServer
from tests.support.platform import Tokens

runner = CliRunner()


@pytest.fixture
def state(platform: Settings, live_server: LiveServer, tokens: Tokens, tmp_path: Path) -> Iterator[Path]:
    """A state folder as `edgeloop up` leaves it, fifty segments in two conditions, and nothing clustered yet."""
    with transaction() as session:
        session.execute(
            text("TRUNCATE curation.segments, curation.training_sets, curation.evaluation_sets, curation.rejected")
        )
        session.execute(text("TRUNCATE curation.runs CASCADE"))
    for index in range(50):
        level = 4 if index < 20 else 11
        service.take_segment(upload(f"s{index:03d}", level, index, score_mean=float(index % 7)), NOW)
    described = {"base_url": live_server.url, "operator_token": tokens.operator}
    (tmp_path / "platform.json").write_text(json.dumps(described))
    with capture_logs():
        yield tmp_path


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of waiting for the worker, do its work."""
    monkeypatch.setattr(cli.time, "sleep", lambda _: service.run_next(NOW, SETTINGS))


def run(state: Path, *words: str, code: int = 0) -> str:
    result = runner.invoke(cli.app, [*words, "--state", str(state)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.usefixtures("worker")
def test_a_plan_says_what_would_stay_and_changes_no_segment(state: Path) -> None:
    planned: dict[str, Any] = json.loads(run(state, "plan", "--json"))
    assert (planned["run"]["state"], planned["run"]["clusters"]) == ("done", 2)
    assert sorted(item["members"] for item in planned["clusters"]) == [20, 30]
    output = run(state, "plan")
    assert f"would keep {planned['run']['kept']} and drop {50 - planned['run']['kept']}; nothing was changed" in output
    with transaction() as session:
        assert session.scalar(text("SELECT count(*) FROM curation.segments")) == 50


@pytest.mark.usefixtures("worker")
def test_the_plan_that_was_read_is_applied_by_the_command_that_it_names(state: Path) -> None:
    planned: dict[str, Any] = json.loads(run(state, "plan", "--json"))["run"]
    shown = run(state, "apply", planned["id"], "--digest", planned["digest"])
    assert f"{50 - planned['kept']} segments will leave with the window, {planned['kept']} stay" in shown
    again = json.loads(run(state, "apply", planned["id"], "--digest", planned["digest"], "--json"))
    assert again["dropped"] == 50 - planned["kept"]
    newer = run(state, "plan")
    assert f"edgeloop curate apply {planned['id']}" not in newer
    assert "edgeloop curate apply" in newer


@pytest.mark.usefixtures("worker")
def test_a_stale_or_other_plan_leaves_with_one_and_a_reason(state: Path) -> None:
    planned: dict[str, Any] = json.loads(run(state, "plan", "--json"))["run"]
    assert "another digest" in run(state, "apply", planned["id"], "--digest", "0" * 64, code=1)
    with transaction() as session:
        session.execute(text("UPDATE curation.runs SET created = created - 60"))
    run(state, "plan")
    assert "is newer" in run(state, "apply", planned["id"], "--digest", planned["digest"], code=1)
    assert "--digest" in run(state, "apply", planned["id"], code=2)


@pytest.mark.usefixtures("worker")
def test_a_cluster_is_explained_with_its_medoid_and_its_hardest(state: Path) -> None:
    cluster = json.loads(run(state, "plan", "--json"))["clusters"][0]
    output = run(state, "explain", cluster["id"])
    assert f"{cluster['members']} members within" in output
    assert "not compared" in output
    assert json.loads(run(state, "explain", cluster["id"], "--json"))["medoid_id"] in output


@pytest.mark.usefixtures("worker")
def test_a_run_that_failed_leaves_with_one_and_the_remedy(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "LIMITS", CurationLimits(distinct_points=10))
    assert "shorten the window" in run(state, "plan", code=1)


def test_a_run_that_nobody_does_leaves_with_three(state: Path) -> None:
    assert "still waits" in run(state, "plan", "--timeout", "0", code=3)


def test_refusals_and_wrong_use_have_their_own_status(state: Path, tmp_path: Path) -> None:
    assert "unknown" in run(state, "explain", "none-1", code=1)
    assert "no platform in" in run(tmp_path / "nowhere", "plan", code=2)
