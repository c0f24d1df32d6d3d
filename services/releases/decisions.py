"""The memory of verdicts: every look that said something new, with all it rested on.

Each is written to the hash-chained audit trail too. A look that acts is written there in full; one that goes on
collecting is held by the digest of its row, which `edgeloop audit verify` computes again.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ARRAY, Text, func, literal, select, true
from sqlalchemy.orm import Session

from contracts.wire.releases import MetricInterval
from services.kit.audit import record
from services.kit.audit_chain import content_digest
from services.kit.models import AuditEntry
from services.releases.domain.machine import Step
from services.releases.limits import ROLLOUT
from services.releases.models import DecisionRow, RolloutRow
from services.releases.verdict import Evidence, Judgement, Memory, VerdictPolicy, watch

Json = dict[str, Any]  # Any: JSON
POLICY = VerdictPolicy()
SYSTEM = "system:verdict"
JUDGED = "rollout.judged"
PAGE = 500


def store(session: Session, row: RolloutRow, evidence: Evidence, judgement: Judgement, step: Step, at: float) -> bool:
    """Keep this look when it differs from the one before; True when it was kept."""
    readings: list[Json] = [asdict(reading) for reading in judgement.readings]
    inputs = _inputs(evidence)
    text = json.dumps([row.stage, step.decision, inputs, readings], sort_keys=True)
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    if fingerprint == _last_fingerprint(session, row.id):
        return False
    worst = judgement.worst
    kept = DecisionRow(
        rollout_id=row.id,
        at=at,
        stage=row.stage,
        decision=step.decision.value,
        why=step.why[:1_000],
        worst=f"{worst.metric} in {worst.stratum}" if worst else "",
        alpha_each=judgement.alpha_each,
        alpha_spent=judgement.alpha_spent,
        code_version=judgement.policy.code_version,
        inputs=inputs,
        readings=readings,
        fingerprint=fingerprint,
    )
    session.add(kept)
    session.flush()
    _write_down(session, kept, step)
    return True


def content(kept: DecisionRow) -> Json:
    """What a decision rests on and says, as its digest in the audit trail covers it."""
    names = ("rollout_id", "at", "stage", "decision", "why", "worst", "alpha_each", "alpha_spent", "code_version")
    return {name: getattr(kept, name) for name in (*names, "inputs", "readings")}


def changed(session: Session) -> str:
    """The first decision that is not what the audit trail holds of it, in words; empty when all are."""
    place = 0
    while True:
        judged = (AuditEntry.action == JUDGED, AuditEntry.place > place)
        entries = session.scalars(select(AuditEntry).where(*judged).order_by(AuditEntry.place).limit(PAGE)).all()
        fault = _first_changed(session, entries)
        if fault or len(entries) < PAGE:
            return fault
        place = entries[-1].place or 0
        session.expunge_all()


def _first_changed(session: Session, entries: Sequence[AuditEntry]) -> str:
    ids = [entry.detail["decision_id"] for entry in entries]
    rows = {row.id: row for row in session.scalars(select(DecisionRow).where(DecisionRow.id.in_(ids)))}
    for entry, decision_id in zip(entries, ids, strict=True):
        row = rows.get(decision_id)
        if row is None:
            return f"decision {decision_id} of {entry.subject} is gone"
        if content_digest(content(row)) != entry.detail["content"]:
            return f"decision {decision_id} of {entry.subject} is not what was decided"
    return ""


def _write_down(session: Session, kept: DecisionRow, step: Step) -> None:
    whole = content(kept)
    detail: Json = {
        "decision_id": kept.id,
        "decision": kept.decision,
        "stage": kept.stage,
        "why": kept.why,
        "alpha_each": kept.alpha_each,
        "alpha_spent": kept.alpha_spent,
        "code_version": kept.code_version,
        "content": content_digest(whole),
    }
    if step.event is not None:
        detail |= {"acts": step.event.value, "inputs": kept.inputs, "readings": kept.readings}
    record(session, SYSTEM, JUDGED, f"rollout:{kept.rollout_id}", detail)


def remember(row: RolloutRow, evidence: Evidence) -> Memory:
    """What the verdict knows after this look, kept with the rollout in the look's transaction."""
    before = row.memory or {}
    memory = watch(Memory.from_json(before, POLICY), evidence, POLICY)
    document = memory.to_json()
    if document != before:
        row.memory = document
    return memory


@dataclass(frozen=True)
class Seen:
    """A look as the API shows it: when, and what was read."""

    at: float
    readings: Sequence[Json]


def newest(session: Session, rollout_ids: Sequence[str], most: int = ROLLOUT.looks_shown) -> dict[str, list[Seen]]:
    """Of each rollout the newest `most` looks, oldest first; one query for all of them."""
    given = func.unnest(literal(list(rollout_ids), ARRAY(Text)).cast(ARRAY(Text)))
    ids = given.table_valued("id", name="wanted").render_derived()
    own = (
        select(DecisionRow.id, DecisionRow.at, DecisionRow.readings)
        .where(DecisionRow.rollout_id == ids.c.id)
        .order_by(DecisionRow.id.desc())
        .limit(most)
        .lateral()
    )
    query = select(ids.c.id, own.c.at, own.c.readings).join_from(ids, own, true()).order_by(own.c.id)
    found: dict[str, list[Seen]] = defaultdict(list)
    for rollout_id, at, readings in session.execute(query):
        found[rollout_id].append(Seen(at, readings))
    return dict(found)


def intervals(rows: Sequence[Seen]) -> list[MetricInterval]:
    """Metrics over time as the API shows them; a metric without data at a look is left out."""
    return [
        MetricInterval(
            metric=reading["metric"],
            stratum=reading["stratum"],
            canary_devices=reading["canary_devices"],
            control_devices=reading["control_devices"],
            estimate=reading["estimate"],
            low=reading["low"],
            high=reading["high"],
            margin=reading["margin"],
            verdict=reading["finding"],
            at=row.at,
        )
        for row in rows
        for reading in row.readings
        if reading["estimate"] is not None
    ]


def _inputs(evidence: Evidence) -> Json:
    return {
        "first_release": evidence.first_release,
        "exposed_share": evidence.exposed_share,
        "targeted": dict(evidence.targeted or {}),
        "stage": [evidence.stage, evidence.stages],
        "past": {name: asdict(known) for name, known in evidence.past.items()},
        "new_crashes": {name: asdict(table) for name, table in evidence.crashes.items()},
        "fleet_shares": dict(evidence.fleet_shares),
        "strata": {
            stratum.name: {
                "started": stratum.started,
                "failed": stratum.failed,
                "silent": stratum.silent,
                "canary": stratum.canary.devices,
                "canary_degraded": stratum.canary.degraded,
                "canary_crashed": stratum.canary.crashed,
                "control": stratum.control.devices,
                "control_degraded": stratum.control.degraded,
                "control_crashed": stratum.control.crashed,
            }
            for stratum in (*evidence.strata, evidence.pooled)
        },
    }


def _last_fingerprint(session: Session, rollout_id: str) -> str | None:
    query = select(DecisionRow.fingerprint).where(DecisionRow.rollout_id == rollout_id)
    return session.scalars(query.order_by(DecisionRow.id.desc()).limit(1)).first()
