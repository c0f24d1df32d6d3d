"""Statements by the program that sent them, from PostgreSQL's log."""

from __future__ import annotations

from pathlib import Path

from benchmarks.serving.statements import StatementLog

LOG = """\
7|server|LOG:  statement: BEGIN
9||LOG:  checkpoint starting: time
7|server|LOG:  execute <unnamed>: SELECT kit.tokens.id
\tFROM kit.tokens
7|server|DETAIL:  Parameters: $1 = 'BEGIN'
8|worker|LOG:  statement: BEGIN
8|worker|LOG:  execute _pg3_1: UPDATE releases.rollouts SET state = 'running'
7|server|LOG:  statement: COMMIT
8|worker|LOG:  statement: ROLLBACK
8|worker|LOG:  statement: SELECT 1
"""


def test_transactions_statements_and_writes_are_counted_by_program(tmp_path: Path) -> None:
    path = tmp_path / "postgres.log"
    path.write_text("7|server|LOG:  statement: SELECT before\n")
    log = StatementLog(path)
    begun = log.mark()
    with path.open("a") as file:
        file.write(LOG)
    found = log.between(begun, log.mark())
    assert set(found) == {"server", "worker"}
    assert (found["server"].transactions, found["server"].statements, found["server"].writes) == (1, 1, 0)
    assert (found["worker"].transactions, found["worker"].statements, found["worker"].writes) == (2, 2, 1)
    assert found["server"].texts == ("SELECT kit.tokens.id",)


def test_a_moment_without_statements_names_nobody(tmp_path: Path) -> None:
    path = tmp_path / "postgres.log"
    path.write_text(LOG)
    log = StatementLog(path)
    assert log.between(log.mark(), log.mark()) == {}
