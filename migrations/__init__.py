"""The database's history: one linear line of Alembic revisions, one PostgreSQL schema a service."""
