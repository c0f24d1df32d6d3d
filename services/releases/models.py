"""Tables of the schema `releases`.

`*_at` columns are real time; columns without that ending (`created`, `entered`) are seconds of the platform's clock.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    DateTime,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from services.kit.database import Base

SCHEMA = "releases"
NOW = func.now()
TAKEN = "taken"
"""Stage of an exposure that is known from the download alone."""


def _reference(column: str) -> ForeignKey:
    return ForeignKey(f"{SCHEMA}.{column}", ondelete="CASCADE")


class EnrolmentToken(Base):
    """Lets `uses_left` more devices in until `expires_at`. Only the SHA-256 of the token is kept."""

    __tablename__ = "enrolment_tokens"
    __table_args__ = ({"schema": SCHEMA},)

    token_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    uses_left: Mapped[int] = mapped_column(Integer)
    expires_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    created_by: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=NOW)


class Device(Base):
    """A device as it last described itself; never written by a poll."""

    __tablename__ = "devices"
    __table_args__ = (
        Index("ix_devices_device_class_id", "device_class", "id"),
        Index("ix_devices_running_digest_device_class_id", "running_digest", "device_class", "id"),
        {"schema": SCHEMA},
    )

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    public_key: Mapped[str] = mapped_column(Text, unique=True)
    device_class: Mapped[str] = mapped_column(Text)
    tags: Mapped[dict[str, str]] = mapped_column(JSONB)
    agent_version: Mapped[str] = mapped_column(Text)
    running_digest: Mapped[str] = mapped_column(Text, server_default="")
    slot_stage: Mapped[str] = mapped_column(Text, server_default="")
    last_cause: Mapped[str] = mapped_column(Text, server_default="")
    sequence: Mapped[int] = mapped_column(BigInteger, server_default="0")
    state_epoch: Mapped[int] = mapped_column(BigInteger, server_default="0")
    enrolled: Mapped[float] = mapped_column(Float)
    last_feedback: Mapped[float | None] = mapped_column(Float)
    sealing_key: Mapped[str | None] = mapped_column(Text)
    keys_barred: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))
    revoked_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class RetiredDeviceKey(Base):
    """A key that a device had before; it never opens anything again, for whoever has it."""

    __tablename__ = "retired_device_keys"
    __table_args__ = (Index("ix_retired_device_keys_device_id", "device_id"), {"schema": SCHEMA})

    public_key: Mapped[str] = mapped_column(Text, primary_key=True)
    device_id: Mapped[str] = mapped_column(Text, _reference("devices.id"))
    retired_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=NOW)


class FleetCount(Base):
    """A change of how many devices of a class run a bundle; the sum of the rows is how many do.

    The database adds a row with every change of `devices`; the worker folds them (`counts.py`).
    """

    __tablename__ = "fleet_counts"
    __table_args__ = ({"schema": SCHEMA},)

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    running_digest: Mapped[str] = mapped_column(Text)
    device_class: Mapped[str] = mapped_column(Text)
    devices: Mapped[int] = mapped_column(BigInteger)


class ExposureCount(Base):
    """A change of how a rollout's devices came along, of those that the stage up to `below` basis points added.

    As with `FleetCount`, the sum of the rows counts.
    """

    __tablename__ = "exposure_counts"
    __table_args__ = (Index("ix_exposure_counts_rollout_id", "rollout_id"), {"schema": SCHEMA})

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    rollout_id: Mapped[str] = mapped_column(Text)
    below: Mapped[int] = mapped_column(Integer)
    installed: Mapped[int] = mapped_column(BigInteger)
    confirmed: Mapped[int] = mapped_column(BigInteger)
    failed: Mapped[int] = mapped_column(BigInteger)
    moved: Mapped[int] = mapped_column(BigInteger)


class ContentKey(Base):
    """The content key of one sealed target for one device class: nonce and ciphertext under a master key generation.

    `head` is the sealed file's own head, which the wrap and every envelope are bound to.
    """

    __tablename__ = "content_keys"
    __table_args__ = (
        Index("ix_content_keys_digest", "digest"),
        Index("ix_content_keys_generation", "generation"),
        {"schema": SCHEMA},
    )

    path: Mapped[str] = mapped_column(Text, primary_key=True)
    device_class: Mapped[str] = mapped_column(Text, primary_key=True)
    digest: Mapped[str] = mapped_column(Text)
    generation: Mapped[int] = mapped_column(Integer)
    head: Mapped[bytes] = mapped_column(LargeBinary)
    wrapped: Mapped[bytes] = mapped_column(LargeBinary)


class BundleRow(Base):
    """A bundle in the update repository."""

    __tablename__ = "bundles"
    __table_args__ = (Index("ix_bundles_created", "created", "digest"), {"schema": SCHEMA})

    digest: Mapped[str] = mapped_column(Text, primary_key=True)
    release_version: Mapped[str] = mapped_column(Text)
    security_epoch: Mapped[int] = mapped_column(Integer)
    length: Mapped[int] = mapped_column(BigInteger)
    build_id: Mapped[str] = mapped_column(Text)
    target_path: Mapped[str] = mapped_column(Text)
    targets: Mapped[list[str]] = mapped_column(ARRAY(Text))
    notes: Mapped[str] = mapped_column(Text)
    provenance: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}")  # Any: JSON
    created_by: Mapped[str] = mapped_column(Text, server_default="")
    revoked: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))
    created: Mapped[float] = mapped_column(Float)


class LayerRow(Base):
    """A layer: rollouts in it never share a device. `salt` places every device, once and for all."""

    __tablename__ = "layers"
    __table_args__ = ({"schema": SCHEMA},)

    name: Mapped[str] = mapped_column(Text, primary_key=True)
    salt: Mapped[str] = mapped_column(Text)
    created_by: Mapped[str] = mapped_column(Text)
    created: Mapped[float] = mapped_column(Float)


class RolloutRow(Base):
    """A rollout. `version` is its ETag and changes with every change of state or stage.

    In a layer it wants `layer_share` basis points, and holds the buckets from `layer_low` to `layer_high` once started.
    """

    __tablename__ = "rollouts"
    __table_args__ = (
        Index(
            "uq_rollouts_active_selector",
            "selector_key",
            unique=True,
            postgresql_where=text("state IN ('running', 'paused')"),
        ),
        Index("ix_rollouts_created", "created", "id"),
        Index("ix_rollouts_digest", "digest"),
        {"schema": SCHEMA},
    )

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    digest: Mapped[str] = mapped_column(ForeignKey(f"{SCHEMA}.bundles.digest"))
    state: Mapped[str] = mapped_column(Text)
    stage: Mapped[int] = mapped_column(Integer, server_default="0")
    selector: Mapped[dict[str, list[str]]] = mapped_column(JSONB)
    selector_key: Mapped[str] = mapped_column(Text)
    rule: Mapped[str] = mapped_column(Text, server_default="")
    layer: Mapped[str | None] = mapped_column(ForeignKey(f"{SCHEMA}.layers.name"))
    layer_share: Mapped[int] = mapped_column(Integer, server_default="0")
    layer_low: Mapped[int | None] = mapped_column(Integer)
    layer_high: Mapped[int | None] = mapped_column(Integer)
    auto_start: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))
    approved_by: Mapped[str | None] = mapped_column(Text)
    requested: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    salt: Mapped[str] = mapped_column(Text)
    soak_s: Mapped[float] = mapped_column(Float)
    min_devices: Mapped[int] = mapped_column(Integer)
    silent_after_s: Mapped[float] = mapped_column(Float)
    reason: Mapped[str] = mapped_column(Text)
    verdict: Mapped[str] = mapped_column(Text, server_default="")
    cause: Mapped[str] = mapped_column(Text, server_default="")
    version: Mapped[int] = mapped_column(Integer, server_default="1")
    human_actions: Mapped[int] = mapped_column(Integer, server_default="0")
    first_release: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))
    previous_digest: Mapped[str | None] = mapped_column(Text)
    standing: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))
    memory: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}", deferred=True)  # Any: JSON
    created_by: Mapped[str] = mapped_column(Text)
    created: Mapped[float] = mapped_column(Float)
    finished: Mapped[float | None] = mapped_column(Float)


class StageRow(Base):
    """One stage of a rollout. `targeted` and `fleet` count known devices by class when the stage began."""

    __tablename__ = "rollout_stages"
    __table_args__ = ({"schema": SCHEMA},)

    rollout_id: Mapped[str] = mapped_column(_reference("rollouts.id"), primary_key=True)
    index: Mapped[int] = mapped_column(Integer, primary_key=True)
    basis_points: Mapped[int] = mapped_column(Integer)
    entered: Mapped[float | None] = mapped_column(Float)
    entered_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    left: Mapped[float | None] = mapped_column(Float)
    targeted: Mapped[dict[str, int]] = mapped_column(JSONB)
    fleet: Mapped[dict[str, int]] = mapped_column(JSONB)


class Exposure(Base):
    """How far one device came with a rollout's bundle. `failed` never goes back to false.

    `moved`: its tags changed, so that the rollout is no longer for it.
    """

    __tablename__ = "exposures"
    __table_args__ = (Index("ix_exposures_device_id", "device_id"), {"schema": SCHEMA})

    rollout_id: Mapped[str] = mapped_column(_reference("rollouts.id"), primary_key=True)
    device_id: Mapped[str] = mapped_column(_reference("devices.id"), primary_key=True)
    stratum: Mapped[str] = mapped_column(Text)
    bucket: Mapped[int] = mapped_column(Integer)
    stage: Mapped[str] = mapped_column(Text)
    sequence: Mapped[int] = mapped_column(BigInteger)
    failed: Mapped[bool] = mapped_column(Boolean)
    confirmed: Mapped[bool] = mapped_column(Boolean)
    heard: Mapped[bool] = mapped_column(Boolean)
    moved: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))
    cause: Mapped[str] = mapped_column(Text)
    started: Mapped[float] = mapped_column(Float)
    started_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=NOW)


class HealthSum(Base):
    """Sums of one device's health reports in one arm of one rollout; device means are sums over counts.

    `crashed` never goes back to false; `crash_counted` once a look has bet on it.
    """

    __tablename__ = "health"
    __table_args__ = ({"schema": SCHEMA},)

    rollout_id: Mapped[str] = mapped_column(_reference("rollouts.id"), primary_key=True)
    device_id: Mapped[str] = mapped_column(_reference("devices.id"), primary_key=True)
    arm: Mapped[str] = mapped_column(Text, primary_key=True)
    stratum: Mapped[str] = mapped_column(Text)
    bucket: Mapped[int] = mapped_column(Integer)
    frames: Mapped[int] = mapped_column(BigInteger)
    driver_errors: Mapped[int] = mapped_column(BigInteger)
    deadline_misses: Mapped[int] = mapped_column(BigInteger)
    cpu_frames: Mapped[int] = mapped_column(BigInteger)
    latency_reports: Mapped[int] = mapped_column(Integer)
    latency_log_sum: Mapped[float] = mapped_column(Float)
    fidelity_reports: Mapped[int] = mapped_column(Integer)
    fidelity_sum: Mapped[float] = mapped_column(Float)
    score_reports: Mapped[int] = mapped_column(Integer, server_default="0")
    score_sum: Mapped[float] = mapped_column(Float, server_default="0")
    degraded: Mapped[bool] = mapped_column(Boolean)
    crashed: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))
    crash_counted: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))


class FeedbackItem(Base):
    """Natural key of a report that was taken in, so that a repetition changes nothing."""

    __tablename__ = "feedback_items"
    __table_args__ = (
        Index("ix_feedback_items_received_at", "received_at"),
        Index("ix_feedback_items_device_id_received_at", "device_id", "received_at"),
        {"schema": SCHEMA},
    )

    device_id: Mapped[str] = mapped_column(_reference("devices.id"), primary_key=True)
    item_id: Mapped[str] = mapped_column(Text, primary_key=True)
    received_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=NOW)


class DecisionRow(Base):
    """One look at a rollout with everything the decision rests on; only ever added."""

    __tablename__ = "decisions"
    __table_args__ = (Index("ix_decisions_rollout_id_id", "rollout_id", "id"), {"schema": SCHEMA})

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    rollout_id: Mapped[str] = mapped_column(_reference("rollouts.id"))
    at: Mapped[float] = mapped_column(Float)
    stage: Mapped[int] = mapped_column(Integer)
    decision: Mapped[str] = mapped_column(Text)
    why: Mapped[str] = mapped_column(Text)
    worst: Mapped[str] = mapped_column(Text)
    alpha_each: Mapped[float] = mapped_column(Float)
    alpha_spent: Mapped[float] = mapped_column(Float, server_default="0")
    code_version: Mapped[str] = mapped_column(Text)
    inputs: Mapped[dict[str, Any]] = mapped_column(JSONB)  # Any: JSON
    readings: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)  # Any: JSON
    fingerprint: Mapped[str] = mapped_column(Text)


class Control(Base):
    """The one row of what holds for the whole fleet; locking it puts changes of the state document in order."""

    __tablename__ = "control"
    __table_args__ = ({"schema": SCHEMA},)

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    epoch: Mapped[int] = mapped_column(BigInteger)
    killed: Mapped[bool] = mapped_column(Boolean)
    kill_reason: Mapped[str] = mapped_column(Text)
    security_epoch_floor: Mapped[int] = mapped_column(Integer)
    baseline_digest: Mapped[str | None] = mapped_column(Text)


class StateKeyRow(Base):
    """A key of the state document. It signs up to `until_at` where one follows it, and never again after `ended_at`."""

    __tablename__ = "state_keys"
    __table_args__ = ({"schema": SCHEMA},)

    public: Mapped[str] = mapped_column(Text, primary_key=True)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    until_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    ended_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    last_epoch: Mapped[int | None] = mapped_column(BigInteger)


class StateDocument(Base):
    """A signed state document as it was served."""

    __tablename__ = "state_documents"
    __table_args__ = ({"schema": SCHEMA},)

    epoch: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    document: Mapped[bytes] = mapped_column(LargeBinary)
    issued_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    expires_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class Alert(Base):
    """Something that a person should know: a roll back, a pause without verdict, the kill switch."""

    __tablename__ = "alerts"
    __table_args__ = ({"schema": SCHEMA},)

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    kind: Mapped[str] = mapped_column(Text)
    subject: Mapped[str] = mapped_column(Text)
    detail: Mapped[str] = mapped_column(Text)
    created: Mapped[float] = mapped_column(Float)


class DdiDevice(Base):
    """What the DDI adapter knows of a device: consent, whether its attributes are wanted, what it installed last."""

    __tablename__ = "ddi_devices"
    __table_args__ = ({"schema": SCHEMA},)

    device_id: Mapped[str] = mapped_column(_reference("devices.id"), primary_key=True)
    auto_confirm: Mapped[bool] = mapped_column(Boolean, server_default=text("true"))
    wants_attributes: Mapped[bool] = mapped_column(Boolean, server_default=text("true"))
    installed_action: Mapped[int | None] = mapped_column(Integer)


class DdiAction(Base):
    """One bundle for one DDI device. Ids stay below 2^31, as clients demand. `history` is what the device said."""

    __tablename__ = "ddi_actions"
    __table_args__ = (Index("ix_ddi_actions_device_id_id", "device_id", "id"), {"schema": SCHEMA})

    id: Mapped[int] = mapped_column(Integer, Identity(always=True), primary_key=True)
    device_id: Mapped[str] = mapped_column(_reference("devices.id"))
    digest: Mapped[str] = mapped_column(ForeignKey(f"{SCHEMA}.bundles.digest"))
    state: Mapped[str] = mapped_column(Text)
    created: Mapped[float] = mapped_column(Float)
    history: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default="[]")  # Any: JSON


class DdiArtifact(Base):
    """A bundle as DDI names it: a numbered module with one file and the hashes that clients ask for."""

    __tablename__ = "ddi_artifacts"
    __table_args__ = ({"schema": SCHEMA},)

    id: Mapped[int] = mapped_column(Integer, Identity(always=True), primary_key=True)
    digest: Mapped[str] = mapped_column(ForeignKey(f"{SCHEMA}.bundles.digest"), unique=True)
    filename: Mapped[str] = mapped_column(Text)
    size: Mapped[int] = mapped_column(BigInteger)
    sha1: Mapped[str] = mapped_column(Text)
    md5: Mapped[str] = mapped_column(Text)
    sha256: Mapped[str] = mapped_column(Text)
