"""A run that is killed with -9 in every step ends with the same bytes as one that nobody disturbed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from flows.data.intake.survey import survey
from flows.retrain import STEPS
from flows.run_folder import Json, RunFolder
from tests.flows.test_retrain import clips, platform_of
from tests.support.flow_killing import KILLS, Driven, drive, results
from tests.support.flow_server import FlowServer
from tests.support.flow_twin import FlowPlatformTwin

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]

KEY = "k"
__all__ = ["clips"]


@dataclass(frozen=True)
class Ended:
    """A run that ended, and the platform that it talked to."""

    driven: Driven
    twin: FlowPlatformTwin
    state: Path


@pytest.fixture(scope="module")
def ended(clips: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Ended]:
    """The undisturbed run, and the one that was killed in each step."""
    settings: Json = {
        "steps": [30, 60, 20], "corpus": str(clips), "profiles": [[72, 88]], "targets": ["npu-4t"],
    }  # fmt: skip
    found = []
    for kills in ((), KILLS):
        twin, state = platform_of(survey(clips).corpus), tmp_path_factory.mktemp("state")
        with FlowServer(twin) as server:
            found.append(Ended(drive(state, KEY, settings, server.url, kills), twin, state))
    return found[0], found[1]


def test_every_step_was_killed_once(ended: tuple[Ended, Ended]) -> None:
    whole, killed = ended
    assert tuple(kill.split(":")[0] for kill in KILLS) == STEPS
    assert (whole.driven.killed, killed.driven.killed) == (0, len(STEPS))
    attempts = {name: row["attempts"] for name, row in RunFolder(killed.state / "runs" / KEY).steps().items()}
    assert attempts == dict.fromkeys(STEPS, 2)


def test_the_result_is_the_undisturbed_run_s_byte_for_byte(ended: tuple[Ended, Ended]) -> None:
    whole, killed = (results(one.state, KEY, STEPS) for one in ended)
    assert [name for name in whole if whole[name] != killed[name]] == []


def test_the_platform_was_told_everything_once(ended: tuple[Ended, Ended]) -> None:
    whole, killed = (one.twin for one in ended)
    assert killed.posts.count(f"build-{KEY}") == 2, "asked again after the kill, under the same key"
    assert (len(killed.builds), len(killed.rollouts), len(killed.registered)) == (1, 1, 1)
    assert killed.batches == whole.batches
    assert killed.judged_by == whole.judged_by
    assert killed.registered == whole.registered
    assert killed.sets == whole.sets


def test_the_parent_stays_the_one_that_the_run_was_begun_with(ended: tuple[Ended, Ended]) -> None:
    _, killed = ended
    assert (killed.state / "models" / "current").read_text() == KEY, "killed right after its own generation was kept"
    assert killed.twin.registered[0].provenance.sources["parent-model.onnx"]
    assert "from `seed`" in killed.twin.registered[0].notes
