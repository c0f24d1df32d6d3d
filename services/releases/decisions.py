"""The memory of verdicts: every look that said something new, with all it rested on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from contracts.wire.releases import MetricInterval
from services.releases.domain.machine import Step
from services.releases.limits import ROLLOUT
from services.releases.models import DecisionRow, RolloutRow
from services.releases.verdict import Evidence, Judgement

Json = dict[str, Any]  # Any: JSON


def store(session: Session, row: RolloutRow, evidence: Evidence, judgement: Judgement, step: Step, at: float) -> bool:
    """Keep this look when it differs from the one before; True when it was kept."""
    readings: list[Json] = [asdict(reading) for reading in judgement.readings]
    inputs = _inputs(evidence)
    text = json.dumps([row.stage, step.decision, inputs, readings], sort_keys=True)
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    if fingerprint == _last_fingerprint(session, row.id):
        return False
    worst = judgement.worst
    session.add(
        DecisionRow(
            rollout_id=row.id,
            at=at,
            stage=row.stage,
            decision=step.decision.value,
            why=step.why[:1_000],
            worst=f"{worst.metric} in {worst.stratum}" if worst else "",
            alpha_each=judgement.alpha_each,
            code_version=judgement.policy.code_version,
            inputs=inputs,
            readings=readings,
            fingerprint=fingerprint,
        )
    )
    return True


def looks(session: Session, rollout_id: str, most: int = ROLLOUT.looks_shown) -> Sequence[DecisionRow]:
    """The newest `most` looks, oldest first."""
    query = select(DecisionRow).where(DecisionRow.rollout_id == rollout_id)
    newest = session.scalars(query.order_by(DecisionRow.id.desc()).limit(most)).all()
    return newest[::-1]


def intervals(rows: Sequence[DecisionRow]) -> list[MetricInterval]:
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
        "fleet_shares": dict(evidence.fleet_shares),
        "strata": {
            stratum.name: {
                "started": stratum.started,
                "failed": stratum.failed,
                "silent": stratum.silent,
                "canary": stratum.canary.devices,
                "canary_degraded": stratum.canary.degraded,
                "control": stratum.control.devices,
                "control_degraded": stratum.control.degraded,
            }
            for stratum in (*evidence.strata, evidence.pooled)
        },
    }


def _last_fingerprint(session: Session, rollout_id: str) -> str | None:
    query = select(DecisionRow.fingerprint).where(DecisionRow.rollout_id == rollout_id)
    return session.scalars(query.order_by(DecisionRow.id.desc()).limit(1)).first()
