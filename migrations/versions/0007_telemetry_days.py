"""Telemetry by days: reports and segments partitioned, durable marks of the streams, counts of refusals.

Rows that are there are carried over, with their ids. Reports and segments no longer use the outbox: the streams
follow the ids, and the durable mark begins before the first row that the outbox had not delivered. Of reports with
absurd days (they used to be taken) the `MOST_DAYS` days with the most reports are kept.
"""

# ruff: noqa: S608  # table and column names of this file, no input
from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007_telemetry_days"
down_revision = "0006_releases"
branch_labels = None
depends_on = None

SCHEMA, DAYS = "telemetry", "telemetry_days"
MOMENT = sa.DateTime(timezone=True)
MOST_DAYS = 400
INLINE = "ALTER TABLE {name} SET (toast_tuple_target = 8160)"


def upgrade() -> None:
    op.execute(f"CREATE SCHEMA IF NOT EXISTS {DAYS}")
    _marks_and_refusals()
    for table in ("reports", "segments"):
        _set_aside(table)
    _reports()
    _segments()
    _carry_over("reports", 1, "day", "day, decode(pseudonym, 'hex'), accepted_at, body")
    _carry_over("segments", 24, "hour", "hour, segment_id, embedding_id, cohort, accepted_at, body")


def downgrade() -> None:
    for table in ("reports", "segments"):
        _set_aside(table)
    _flat_reports()
    _flat_segments()
    # the words of a report are at the offsets 24, 60 and 84 of DRF1
    word = "convert_from(rtrim(substring(body FROM {} FOR {}), '\\x00'::bytea), 'SQL_ASCII')"
    cohort = f"{word.format(61, 24)} || '/' || {word.format(85, 32)}"
    columns = f"encode(pseudonym, 'hex'), day, {cohort}, {word.format(25, 16)}, body, accepted_at"
    _carry_back("reports", "pseudonym, day, cohort, embedding_id, body, accepted_at", columns, "pseudonym, day")
    columns = "segment_id, embedding_id, hour, cohort, body, accepted_at"
    _carry_back("segments", columns, columns, "segment_id")
    op.drop_table("refusals", schema=SCHEMA)
    op.drop_table("stream_marks", schema=SCHEMA)
    op.execute(f"DROP SCHEMA {DAYS}")


def _marks_and_refusals() -> None:
    op.create_table(
        "stream_marks",
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("finished", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("stream", name="pk_stream_marks"),
        schema=SCHEMA,
    )
    op.create_table(
        "refusals",
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "reason", name="pk_refusals"),
        schema=SCHEMA,
    )


def _set_aside(table: str) -> None:
    """Rename the table with its sequence and key names, to make room for the new one."""
    op.execute(f"ALTER TABLE {SCHEMA}.{table} RENAME TO {table}_before")
    op.execute(f"ALTER SEQUENCE {SCHEMA}.{table}_id_seq RENAME TO {table}_before_id_seq")
    op.execute(f"ALTER TABLE {SCHEMA}.{table}_before RENAME CONSTRAINT pk_{table} TO pk_{table}_before")
    op.execute(f"ALTER INDEX IF EXISTS {SCHEMA}.ix_{table}_id RENAME TO ix_{table}_before_id")


def _reports() -> None:
    op.create_table(
        "reports",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("pseudonym", sa.LargeBinary(), nullable=False),
        sa.Column("accepted_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("day", "pseudonym", name="pk_reports"),
        schema=SCHEMA,
        postgresql_partition_by="RANGE (day)",
    )
    op.create_index("ix_reports_id", "reports", ["id"], schema=SCHEMA)
    op.execute(f"ALTER TABLE {SCHEMA}.reports ALTER body SET STORAGE EXTERNAL")


def _segments() -> None:
    op.create_table(
        "segments",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("hour", sa.Integer(), nullable=False),
        sa.Column("segment_id", sa.Text(), nullable=False),
        sa.Column("embedding_id", sa.Text(), nullable=False),
        sa.Column("cohort", sa.Text(), nullable=False),
        sa.Column("accepted_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("hour", "segment_id", name="pk_segments"),
        schema=SCHEMA,
        postgresql_partition_by="RANGE (hour)",
    )
    op.create_index("ix_segments_id", "segments", ["id"], schema=SCHEMA)


def _carry_over(table: str, step: int, key: str, columns: str) -> None:
    """Make the partitions that the rows need, copy the rows, set the sequence and the mark, drop what was before."""
    connection = op.get_bind()
    counted = (
        f"SELECT {key} / {step} FROM {SCHEMA}.{table}_before GROUP BY 1 ORDER BY count(*) DESC, 1 DESC LIMIT :most"
    )
    days = list(connection.scalars(sa.text(counted), {"most": MOST_DAYS}))  # names above
    for day in days:
        bounds = f"FROM ({day * step}) TO ({(day + 1) * step})"
        name = f"{DAYS}.{table}_{day}"
        op.execute(f"CREATE TABLE {name} PARTITION OF {SCHEMA}.{table} FOR VALUES {bounds}")
        if table == "reports":
            op.execute(INLINE.format(name=name))
    names = columns.replace("decode(pseudonym, 'hex')", "pseudonym")
    copied = (
        f"INSERT INTO {SCHEMA}.{table} (id, {names}) OVERRIDING SYSTEM VALUE "
        f"SELECT id, {columns} FROM {SCHEMA}.{table}_before WHERE {key} / {step} = ANY(:days) ORDER BY id"
    )
    connection.execute(sa.text(copied), {"days": days})
    _go_on(table)
    _mark(table)
    op.execute(f"DROP TABLE {SCHEMA}.{table}_before")


def _go_on(table: str) -> None:
    """New ids continue after every id that was ever given out here."""
    before = f"SELECT last_value FROM {SCHEMA}.{table}_before_id_seq"
    op.execute(f"SELECT setval('{SCHEMA}.{table}_id_seq', ({before}))")


def _mark(table: str) -> None:
    """Begin before what the outbox had not delivered, and a week back, as nobody noted what the readers have."""
    stream = f"telemetry.{table}"
    waiting = f"SELECT min((payload->>'id')::bigint) - 1 FROM kit.outbox WHERE topic = '{stream}' AND done_at IS NULL"
    old = f"SELECT max(id) FROM {SCHEMA}.{table} WHERE accepted_at < now() - interval '7 days'"
    newest = f"SELECT max(id) FROM {SCHEMA}.{table}"
    mark = f"LEAST(COALESCE(({old}), 0), ({waiting}), ({newest}))"
    op.execute(f"INSERT INTO {SCHEMA}.stream_marks SELECT '{stream}', COALESCE({mark}, 0)")
    op.execute(f"DELETE FROM kit.outbox WHERE topic = '{stream}'")


def _carry_back(table: str, names: str, columns: str, key: str) -> None:
    """Copy the rows into the flat table, each key once, and give the outbox what the readers may not have."""
    stream = f"telemetry.{table}"
    op.execute(
        f"INSERT INTO {SCHEMA}.{table} (id, {names}) OVERRIDING SYSTEM VALUE "
        f"SELECT id, {columns} FROM "
        f"(SELECT DISTINCT ON ({key}) * FROM {SCHEMA}.{table}_before ORDER BY {key}, id) AS one"
    )
    op.execute(
        f"INSERT INTO kit.outbox (topic, key, payload) "
        f"SELECT '{stream}', id::text, jsonb_build_object('id', id) FROM {SCHEMA}.{table} "
        f"WHERE id > COALESCE((SELECT finished FROM {SCHEMA}.stream_marks WHERE stream = '{stream}'), 0) ORDER BY id"
    )
    _go_on(table)
    op.execute(f"DROP TABLE {SCHEMA}.{table}_before")


def _flat_reports() -> None:
    op.create_table(
        "reports",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("pseudonym", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("cohort", sa.Text(), nullable=False),
        sa.Column("embedding_id", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("accepted_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_reports"),
        sa.UniqueConstraint("pseudonym", "day", name="uq_reports_pseudonym_day"),
        schema=SCHEMA,
    )


def _flat_segments() -> None:
    op.create_table(
        "segments",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("segment_id", sa.Text(), nullable=False),
        sa.Column("embedding_id", sa.Text(), nullable=False),
        sa.Column("hour", sa.Integer(), nullable=False),
        sa.Column("cohort", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("accepted_at", MOMENT, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_segments"),
        sa.UniqueConstraint("segment_id", name="uq_segments_segment_id"),
        schema=SCHEMA,
    )
