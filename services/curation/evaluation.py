"""Evaluation sets as vectors, and the check that no training set holds what models are judged by."""

from __future__ import annotations

import hashlib

import numpy as np
from sqlalchemy import or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from contracts.features import VECTOR_LENGTH
from contracts.wire.curation import EvaluationVectorBatch, TrainingVectorBatch
from services.curation import vectors
from services.curation.domain.leakage import Leak, Leakage, leakage
from services.curation.limits import LIMITS, CurationSettings
from services.curation.models import EvaluationSet, Run
from services.curation.training import RevisionTaken


class TrainingLeak(ValueError):
    """A training set holds evaluation clips; `leaks` says where."""

    def __init__(self, revision: str, eps: float, leaks: tuple[Leak, ...]) -> None:
        clips = sorted({leak.clip for leak in leaks})
        named = ", ".join(clips[: LIMITS.leaks_told]) + (" and others" if len(clips) > LIMITS.leaks_told else "")
        super().__init__(
            f"{len(leaks)} training vectors lie within {eps:.4g} of vectors of the same clip in the evaluation set "
            f"{revision} ({named}); nothing was stored, take those clips out of training or out of evaluation"
        )
        self.leaks = leaks


def add_evaluation_set(session: Session, batch: EvaluationVectorBatch, now: float) -> bool:
    """Store an evaluation set; False when the same one is known. Raises RevisionTaken when it differs."""
    digest = hashlib.sha256(batch.model_dump_json().encode()).hexdigest()
    known = session.get(EvaluationSet, batch.revision)
    if known is not None:
        if known.digest != digest:
            raise RevisionTaken(f"revision {batch.revision} holds {known.vectors} other vectors")
        return False
    values = {
        "revision": batch.revision,
        "embedding_id": batch.embedding_id,
        "digest": digest,
        "vectors": len(batch.vectors),
        "matrix": vectors.to_bytes(np.asarray([one.vector for one in batch.vectors], dtype=np.float32)),
        "clips": [one.clip for one in batch.vectors],
        "created": now,
    }
    session.execute(insert(EvaluationSet).values(**values))
    return True


def check_training(
    session: Session, batch: TrainingVectorBatch, last: Run | None, settings: CurationSettings
) -> Leakage:
    """Hold a training set against the newest evaluation set of its embedding. Raises TrainingLeak."""
    judged_by = _newest(session, batch.embedding_id)
    if judged_by is None:
        return Leakage((), 0)
    eps = settings.leak_eps or (last.eps if last is not None and last.eps > 0 else settings.eps_floor)
    told = np.asarray([one.vector for one in batch.vectors], dtype=np.float32).reshape(-1, VECTOR_LENGTH)
    clips = [one.clip or one.video for one in batch.vectors]
    found = leakage(told, clips, vectors.matrix([judged_by.matrix]), judged_by.clips, eps)
    if found.leaks:
        raise TrainingLeak(judged_by.revision, eps, found.leaks)
    return found


def _newest(session: Session, embedding_id: str | None) -> EvaluationSet | None:
    newest = select(EvaluationSet).order_by(EvaluationSet.ordinal.desc()).limit(1)
    if embedding_id is not None:
        newest = newest.where(or_(EvaluationSet.embedding_id.is_(None), EvaluationSet.embedding_id == embedding_id))
    return session.scalar(newest)
