"""Counts that pages show, kept by the database itself, and the order in which lists are read.

A list that shows "312 of 340 confirmed" must not walk a million rows for it. Every statement that changes a device or
an exposure leaves a row with the change of the count in the same transaction: nothing is locked that two devices would
share, and the sum of the rows is exact for whoever reads it. A worker folds them (`releases.fold`).

The triggers come before the counting, and hold writers up until this migration is committed, so no change is missed.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026_counts"
down_revision = "0025_device_keys"
branch_labels = None
depends_on = None

SCHEMA = "releases"

COUNTED_DEVICES = """
INSERT INTO releases.fleet_counts (running_digest, device_class, devices)
SELECT running_digest, device_class, {sign}count(*) FROM {rows} GROUP BY running_digest, device_class
"""
COUNTED_EXPOSURES = """
INSERT INTO releases.exposure_counts (rollout_id, below, installed, confirmed, failed, moved)
SELECT one.rollout_id, releases.stage_above(one.rollout_id, one.bucket),
       {sign}sum(one.installed), {sign}sum(one.confirmed), {sign}sum(one.failed), {sign}sum(one.moved)
FROM (
    SELECT rollout_id, bucket,
           count(*) FILTER (WHERE (failed OR NOT moved) AND stage <> 'taken') AS installed,
           count(*) FILTER (WHERE (failed OR NOT moved) AND confirmed) AS confirmed,
           count(*) FILTER (WHERE failed) AS failed,
           count(*) FILTER (WHERE moved AND NOT failed) AS moved
    FROM {rows} GROUP BY rollout_id, bucket
) AS one
GROUP BY 1, 2
HAVING sum(one.installed + one.confirmed + one.failed + one.moved) > 0
"""
STAGE_ABOVE = """
CREATE FUNCTION releases.stage_above(of_rollout text, of_bucket integer) RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT min(basis_points) FROM releases.rollout_stages
         WHERE rollout_id = of_rollout AND basis_points > of_bucket), 10000)
$$
"""
FUNCTION = """
CREATE FUNCTION releases.{name}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {body};
    RETURN NULL;
END $$
"""
DEVICE_CHANGED = """
INSERT INTO releases.fleet_counts (running_digest, device_class, devices)
VALUES (OLD.running_digest, OLD.device_class, -1), (NEW.running_digest, NEW.device_class, 1)
"""
EXPOSURE_CHANGED = """
INSERT INTO releases.exposure_counts (rollout_id, below, installed, confirmed, failed, moved)
SELECT NEW.rollout_id, releases.stage_above(NEW.rollout_id, NEW.bucket), a.installed - b.installed,
       a.confirmed - b.confirmed, a.failed - b.failed, a.moved - b.moved
FROM (SELECT ((NEW.failed OR NOT NEW.moved) AND NEW.stage <> 'taken')::int AS installed,
             ((NEW.failed OR NOT NEW.moved) AND NEW.confirmed)::int AS confirmed,
             NEW.failed::int AS failed, (NEW.moved AND NOT NEW.failed)::int AS moved) AS a,
     (SELECT ((OLD.failed OR NOT OLD.moved) AND OLD.stage <> 'taken')::int AS installed,
             ((OLD.failed OR NOT OLD.moved) AND OLD.confirmed)::int AS confirmed,
             OLD.failed::int AS failed, (OLD.moved AND NOT OLD.failed)::int AS moved) AS b
WHERE (a.installed, a.confirmed, a.failed, a.moved) IS DISTINCT FROM (b.installed, b.confirmed, b.failed, b.moved)
"""
KEPT = (
    ("devices", "device", "fleet_counts", COUNTED_DEVICES, DEVICE_CHANGED, "running_digest device_class"),
    ("exposures", "exposure", "exposure_counts", COUNTED_EXPOSURES, EXPOSURE_CHANGED, "stage confirmed failed moved"),
)


def upgrade() -> None:
    _tables()
    op.execute(STAGE_ABOVE)
    for table, name, kept, counted, changed, columns in KEPT:
        _keep(table, name, kept, counted, changed, columns.split())
        op.execute(counted.format(sign="", rows=f"{SCHEMA}.{table}"))
    op.drop_index("ix_devices_device_class", "devices", schema=SCHEMA)
    op.create_index("ix_devices_device_class_id", "devices", ["device_class", "id"], schema=SCHEMA)
    columns = ["running_digest", "device_class", "id"]
    op.create_index("ix_devices_running_digest_device_class_id", "devices", columns, schema=SCHEMA)
    op.create_index(
        "ix_feedback_items_device_id_received_at", "feedback_items", ["device_id", "received_at"], schema=SCHEMA
    )
    op.create_index("ix_audit_actor_id", "audit", ["actor", "id"], schema="kit")
    op.create_index("ix_audit_action_id", "audit", ["action", "id"], schema="kit")
    op.create_index("ix_cohort_days_day", "cohort_days", ["day", "embedding_id"], schema="drift")


def downgrade() -> None:
    op.drop_index("ix_cohort_days_day", "cohort_days", schema="drift")
    op.drop_index("ix_audit_action_id", "audit", schema="kit")
    op.drop_index("ix_audit_actor_id", "audit", schema="kit")
    op.drop_index("ix_feedback_items_device_id_received_at", "feedback_items", schema=SCHEMA)
    op.drop_index("ix_devices_running_digest_device_class_id", "devices", schema=SCHEMA)
    op.drop_index("ix_devices_device_class_id", "devices", schema=SCHEMA)
    op.create_index("ix_devices_device_class", "devices", ["device_class"], schema=SCHEMA)
    for table, name, *_ in KEPT:
        for word in ("added", "removed", "changed", "emptied"):
            op.execute(f"DROP TRIGGER count_{name}_{word} ON {SCHEMA}.{table}")
            op.execute(f"DROP FUNCTION {SCHEMA}.count_{name}_{word}()")
    op.execute("DROP FUNCTION releases.stage_above(text, integer)")
    op.drop_table("exposure_counts", schema=SCHEMA)
    op.drop_table("fleet_counts", schema=SCHEMA)


def _tables() -> None:
    op.create_table(
        "fleet_counts",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("running_digest", sa.Text(), nullable=False),
        sa.Column("device_class", sa.Text(), nullable=False),
        sa.Column("devices", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_fleet_counts"),
        schema=SCHEMA,
    )
    op.create_table(
        "exposure_counts",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("rollout_id", sa.Text(), nullable=False),
        sa.Column("below", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("installed", "confirmed", "failed", "moved")),
        sa.PrimaryKeyConstraint("id", name="pk_exposure_counts"),
        schema=SCHEMA,
    )
    op.create_index("ix_exposure_counts_rollout_id", "exposure_counts", ["rollout_id"], schema=SCHEMA)


def _keep(table: str, name: str, kept: str, counted: str, changed: str, columns: list[str]) -> None:
    """Rows that come or go are counted once a statement, a row that changes by itself, and only where it counts."""
    for word, event, rows, sign in (("added", "INSERT", "NEW", ""), ("removed", "DELETE", "OLD", "-")):
        body = counted.format(sign=sign, rows="counted_rows").strip()
        op.execute(FUNCTION.format(name=f"count_{name}_{word}", body=body))
        op.execute(
            f"CREATE TRIGGER count_{name}_{word} AFTER {event} ON {SCHEMA}.{table} REFERENCING {rows} TABLE AS "
            f"counted_rows FOR EACH STATEMENT EXECUTE FUNCTION {SCHEMA}.count_{name}_{word}()"
        )
    op.execute(FUNCTION.format(name=f"count_{name}_changed", body=changed.strip()))
    before, after = (", ".join(f"{side}.{column}" for column in columns) for side in ("OLD", "NEW"))
    op.execute(
        f"CREATE TRIGGER count_{name}_changed AFTER UPDATE ON {SCHEMA}.{table} FOR EACH ROW "
        f"WHEN (({before}) IS DISTINCT FROM ({after})) EXECUTE FUNCTION {SCHEMA}.count_{name}_changed()"
    )
    op.execute(FUNCTION.format(name=f"count_{name}_emptied", body=f"DELETE FROM {SCHEMA}.{kept}"))  # noqa: S608  # a constant
    op.execute(
        f"CREATE TRIGGER count_{name}_emptied AFTER TRUNCATE ON {SCHEMA}.{table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {SCHEMA}.count_{name}_emptied()"
    )
