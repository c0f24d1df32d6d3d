"""Training sets as vectors, and coverage of a run's clusters by them.

A training set reaches what its own vectors and those of its parents reach: the next model is trained on the
old set and the new. Coverage is stored for (cluster, revision), so before and after stay comparable for
ever.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from contracts.wire.curation import TrainingVectorBatch
from services.curation import vectors
from services.curation.domain.coverage import cluster_coverage, eps_cov, nearest_distance, tightened
from services.curation.limits import LIMITS, CurationSettings
from services.curation.models import ClusterRow, CoverageRow, Member, Run, TrainingSet


class RevisionTaken(ValueError):
    """Another training set has this revision."""


def add_training_set(session: Session, batch: TrainingVectorBatch, now: float, settings: CurationSettings) -> bool:
    """Store a training set; False when the same one is known. Raises RevisionTaken when it differs."""
    digest = hashlib.sha256(batch.model_dump_json().encode()).hexdigest()
    known = session.get(TrainingSet, batch.revision)
    if known is not None:
        if known.digest != digest:
            raise RevisionTaken(f"revision {batch.revision} holds {known.vectors} other vectors")
        return False
    rows = np.asarray([vector.vector for vector in batch.vectors], dtype=np.float32)
    videos = [vector.video for vector in batch.vectors]
    ancestors = _chain(session, batch.parent)
    inherited = ancestors[0].eps_cov if ancestors else None
    everything = np.concatenate([rows, _joined(ancestors)])
    own = eps_cov(everything, [*videos, *(video for one in ancestors for video in one.videos)])
    values = {
        "revision": batch.revision,
        "parent": batch.parent,
        "digest": digest,
        "vectors": len(rows),
        "matrix": vectors.to_bytes(rows),
        "videos": videos,
        "conditions": [vector.condition for vector in batch.vectors],
        "eps_cov": tightened(own, inherited, settings.eps_cov_default),
        "created": now,
    }
    session.execute(insert(TrainingSet).values(**values))
    return True


def latest_revision(session: Session) -> TrainingSet | None:
    """Return the training set that was posted last."""
    return session.scalar(select(TrainingSet).order_by(TrainingSet.ordinal.desc()).limit(1))


def revision_before(session: Session, training_set: TrainingSet) -> TrainingSet | None:
    """Return its parent, or the one posted before it."""
    if training_set.parent is not None:
        parent = session.get(TrainingSet, training_set.parent)
        if parent is not None:
            return parent
    earlier = select(TrainingSet).where(TrainingSet.ordinal < training_set.ordinal)
    return session.scalar(earlier.order_by(TrainingSet.ordinal.desc()).limit(1))


def cover_newest(session: Session, run: Run | None, settings: CurationSettings) -> None:
    """See to it that a run's coverage by the newest training set, and by the one before, is stored.

    Called by whoever adds a run or a training set, and again when nothing else is to do, because two such
    transactions at once do not see each other.
    """
    newest = latest_revision(session)
    if run is None or newest is None:
        return
    for training_set in (newest, revision_before(session, newest)):
        if training_set is not None and not _is_covered(session, run, training_set):
            cover_run(session, run.id, training_set, settings)


def cover_run(session: Session, run_id: str, training_set: TrainingSet, settings: CurationSettings) -> None:
    """Compute and store the coverage of every cluster of a run. Repeating it changes nothing."""
    training = _joined([training_set, *_chain(session, training_set.parent)])
    clusters = session.scalars(select(ClusterRow.id).where(ClusterRow.run_id == run_id).order_by(ClusterRow.label))
    for cluster_id in clusters.all():
        members = session.scalars(select(Member.vector).where(Member.cluster_id == cluster_id))
        found = cluster_coverage(
            nearest_distance(vectors.matrix(members), training),
            training_set.eps_cov,
            settings.covered_share,
            settings.uncovered_share,
        )
        row = insert(CoverageRow).values(
            cluster_id=cluster_id,
            revision=training_set.revision,
            run_id=run_id,
            state=found.state.value,
            members=found.members,
            covered=found.covered,
            share=found.share,
            low=found.low,
            high=found.high,
            eps_cov=training_set.eps_cov,
        )
        session.execute(row.on_conflict_do_nothing())


def _is_covered(session: Session, run: Run, training_set: TrainingSet) -> bool:
    stored = select(func.count()).where(CoverageRow.run_id == run.id, CoverageRow.revision == training_set.revision)
    return (session.scalar(stored) or 0) >= run.clusters


def _chain(session: Session, revision: str | None) -> list[TrainingSet]:
    """The training set of `revision` and its parents, nearest first. Unknown parents and rings end the
    chain.
    """
    chain: list[TrainingSet] = []
    while revision is not None and len(chain) < LIMITS.chain:
        found = session.get(TrainingSet, revision)
        if found is None or found in chain:
            break
        chain.append(found)
        revision = found.parent
    return chain


def _joined(sets: list[TrainingSet]) -> NDArray[np.float32]:
    return vectors.matrix(one.matrix for one in sets)
