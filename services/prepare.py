"""`python -m services.prepare`: bring the database to the newest revision and make sure that staff tokens exist.

Standard input: JSON `{"operator_token": ..., "service_token": ...}` with the tokens known so far (or `{}`). Standard
output: the same with tokens that are valid now. Tokens travel by pipe, never by argument, because arguments are
visible to every user of the machine.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from alembic import command
from alembic.config import Config

from services.kit.auth import Kind, authenticate, issue_token
from services.kit.database import engine, transaction
from services.kit.problems import Unauthorized

HOLDERS: dict[str, Kind] = {"operator_token": "operator", "service_token": "service"}
SUBJECT = "embedded"
MIGRATIONS = Path(__file__).resolve().parents[1] / "migrations"


def migrate(revision: str = "head") -> None:
    """Bring the database of the settings to `revision`."""
    configuration = Config()
    configuration.set_main_option("script_location", str(MIGRATIONS))
    configuration.set_main_option("path_separator", "os")
    with engine().connect() as connection:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)


def tokens(known: dict[str, str]) -> dict[str, str]:
    """Keep the tokens that are valid, make the others anew."""
    with transaction() as session:
        made = dict(known)
        for name, kind in HOLDERS.items():
            try:
                authenticate(session, known.get(name, ""))
            except Unauthorized:
                made[name] = issue_token(session, kind, SUBJECT)
        return made


def main() -> None:
    """Read the known tokens, migrate, write the valid ones."""
    known = json.load(sys.stdin)
    migrate()
    json.dump(tokens(known), sys.stdout)


if __name__ == "__main__":
    main()
