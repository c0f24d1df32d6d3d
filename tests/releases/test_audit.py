"""The audit trail is a chain: every decision lies in it, and whatever is changed afterwards is noticed."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from services.kit import audit, audit_chain
from services.kit.database import transaction
from services.releases import audit_cli, ticks
from tests.releases.conftest import OLD
from tests.releases.test_cli import state
from tests.releases.world import World

__all__ = ["state"]
VERIFY = "/releases/v1/audit/verification"


@pytest.fixture
def judged(world: World) -> World:
    """A world in which one rollout was judged and ended by the verdict."""
    with transaction() as session:
        session.execute(text("TRUNCATE kit.audit"))
    world.enrol(40, OLD)
    rollout = world.rollout(world.register())
    assert world.run(rollout.id, bad_class="npu-2t").state == "rolled_back"
    return world


def verification(world: World, **query: str) -> dict[str, object]:
    answer = world.client.get(VERIFY, token=world.operator, params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def change(statement: str) -> None:
    with transaction() as session:
        session.execute(text(statement))


def test_a_trail_that_nobody_changed_holds_together(judged: World) -> None:
    found = verification(judged)
    assert found["ok"], found
    assert isinstance(found["entries"], int)
    assert found["entries"] > 4


def test_a_decision_that_acts_lies_in_the_trail_with_inputs_bounds_alpha_and_code_version(judged: World) -> None:
    with transaction() as session:
        (entry,) = [e for e in audit.entries(session, limit=200) if e.action == "rollout.judged" and "acts" in e.detail]
        found = entry.detail
    assert found["acts"] == "rollback"
    assert found["code_version"] == "verdict-3"
    assert 0 < found["alpha_each"] < 0.05
    assert found["alpha_spent"] >= 0
    assert found["inputs"]["strata"]["npu-2t"]["failed"] > 0
    assert {"low", "high", "margin", "metric"} <= set(found["readings"][0])


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE kit.audit SET actor = 'operator:eve' WHERE place = 2", "entry 2 (rollout.started) is not what was"),
        ("DELETE FROM kit.audit WHERE place = 2", "entries 2 to 2 are gone"),
        ("UPDATE releases.decisions SET decision = 'promote' WHERE decision = 'rollback'", "is not what was decided"),
        ("UPDATE releases.decisions SET alpha_each = 0.5", "is not what was decided"),
        ("DELETE FROM releases.decisions WHERE decision = 'rollback'", "is gone"),
    ],
)
def test_whatever_is_changed_afterwards_is_found_and_named(judged: World, statement: str, words: str) -> None:
    with transaction() as session:
        places = session.execute(text("SELECT place, action FROM kit.audit ORDER BY place LIMIT 6")).all()
    change(statement)
    found = verification(judged)
    assert not found["ok"]
    fault = str(found["fault"])
    expected = words.replace("rollout.started", places[1].action)
    assert expected in fault


def test_a_trail_that_was_cut_is_found_by_the_noted_link(judged: World) -> None:
    noted = str(verification(judged)["head"])
    change("DELETE FROM kit.audit WHERE place = (SELECT max(place) FROM kit.audit)")
    assert verification(judged)["ok"], "the chain alone cannot know what came last"
    assert "cut" in str(verification(judged, head=noted)["fault"])


def test_transactions_at_once_leave_a_chain_without_gaps(world: World) -> None:
    def write(name: str) -> None:
        for number in range(10):
            with transaction() as session:
                audit.record(
                    session, f"service:{name}", "test.wrote", f"thing:{number}", {"x": 0.1 * number, "y": 1e22}
                )
                session.flush()

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with transaction() as session:
        found = audit_chain.verify(session)
    assert found.ok, found.fault


def test_an_act_that_is_rolled_back_leaves_no_place_in_the_chain(world: World) -> None:
    with transaction() as session:
        before = audit_chain.verify(session).entries

    def fail() -> None:
        with transaction() as session:
            audit.record(session, "service:x", "test.failed", "thing:1")
            session.flush()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with transaction() as session:
        audit.record(session, "service:x", "test.worked", "thing:1")
    with transaction() as session:
        found = audit_chain.verify(session)
    assert found.ok
    assert found.entries == before + 1


def test_the_command_says_that_the_trail_holds_and_leaves_with_three_when_not(judged: World, state: Path) -> None:
    run = CliRunner().invoke
    words = ["verify", "--state", str(state)]
    good = run(audit_cli.app, [*words, "--json"])
    assert good.exit_code == 0, good.output
    head = json.loads(good.output)["head"]
    assert run(audit_cli.app, [*words, "--head", head]).exit_code == 0
    assert run(audit_cli.app, [*words, "--head", "nonsense"]).exit_code == 2
    change("UPDATE kit.audit SET subject = 'rollout:other' WHERE place = 1")
    assert run(audit_cli.app, words).exit_code == 3


def test_a_tick_that_fails_has_counted_nothing(judged: World) -> None:
    entries = verification(judged)["entries"]
    ticks.tick_all()
    assert verification(judged)["entries"] == entries, "no rollout is in progress, so nothing is decided"
