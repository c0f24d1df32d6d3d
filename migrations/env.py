"""Alembic's environment: our settings, our models, our schemas only.

`alembic check` compares the schemas of our services with the models; other programs' tables are not looked at.
"""

from __future__ import annotations

from typing import Any

from alembic import context
from sqlalchemy import Connection, text

from services.kit import models as kit_models
from services.kit.database import Base, engine
from services.kit.discovery import SERVICES, parts

SCHEMAS = frozenset({kit_models.SCHEMA, *SERVICES})
MODEL_MODULES = [module for _, module in parts("models", SERVICES)]


def ours(name: str | None, kind: str, _parents: Any) -> bool:  # Any: Alembic passes a TypedDict that differs by kind
    """Look at our own schemas only, and not at Alembic's table."""
    if kind == "schema":
        return name in SCHEMAS
    return not (kind == "table" and name == "alembic_version")


def migrate(connection: Connection) -> None:
    """Run the wanted revisions on `connection`, in one transaction."""
    connection.execute(text("SET statement_timeout = 0"))
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {kit_models.SCHEMA}"))
    connection.commit()
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        include_schemas=True,
        include_name=ours,
        version_table_schema=kit_models.SCHEMA,
        compare_type=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    migrate(given)
else:
    with engine().connect() as opened:
        migrate(opened)
