"""Training sets as vectors, and coverage of a run's clusters by them.

A training set reaches what its own vectors and those of its parents reach: the next model is trained on the
old set and the new. Coverage is stored for (cluster, revision), so before and after stay comparable for
ever.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Select, func, literal, or_, select, true, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, defer

from contracts.features import VECTOR_LENGTH
from contracts.wire.curation import TrainingVectorBatch
from services.curation import vectors
from services.curation.domain.coverage import eps_cov, judged, nearest_distance, tightened
from services.curation.limits import LIMITS, CurationSettings
from services.curation.models import ClusterRow, CoverageRow, Member, Run, TrainingSet

LATER = (defer(TrainingSet.matrix), defer(TrainingSet.videos), defer(TrainingSet.conditions))
"""Megabytes that only those need who compare vectors."""


class RevisionTaken(ValueError):
    """Another training set has this revision."""


def add_training_set(session: Session, batch: TrainingVectorBatch, now: float, settings: CurationSettings) -> bool:
    """Store a training set; False when the same one is known. Raises RevisionTaken when it differs.

    Vectors of zeros are left out: a clip without any feature says nothing, and would be near every other such clip.
    """
    digest = hashlib.sha256(batch.model_dump_json().encode()).hexdigest()
    known = session.get(TrainingSet, batch.revision)
    if known is not None:
        if known.digest != digest:
            raise RevisionTaken(f"revision {batch.revision} holds {known.vectors} other vectors")
        return False
    told = [vector for vector in batch.vectors if any(vector.vector)]
    rows = np.asarray([vector.vector for vector in told], dtype=np.float32).reshape(-1, VECTOR_LENGTH)
    videos = [vector.video for vector in told]
    ancestors = _chain(session, batch.parent, batch.embedding_id)
    inherited = ancestors[0].eps_cov if ancestors else None
    everything = np.concatenate([rows, _joined(ancestors)])
    own = eps_cov(everything, [*videos, *(video for one in ancestors for video in one.videos)])
    values = {
        "revision": batch.revision,
        "parent": batch.parent,
        "embedding_id": batch.embedding_id,
        "digest": digest,
        "vectors": len(rows),
        "matrix": vectors.to_bytes(rows),
        "videos": videos,
        "conditions": [vector.condition for vector in told],
        "eps_cov": tightened(own, inherited, settings.eps_cov_default),
        "created": now,
    }
    session.execute(insert(TrainingSet).values(**values))
    return True


def latest_revision(
    session: Session, embedding_id: str | None = None, *, vectors_later: bool = False
) -> TrainingSet | None:
    """Return the training set that was posted last: of an embedding, or one that does not tell its own.

    With `vectors_later` its vectors are read only once they are asked for.
    """
    newest = select(TrainingSet).where(_comparable(embedding_id)).order_by(TrainingSet.ordinal.desc())
    return session.scalar(newest.options(*(LATER if vectors_later else ())).limit(1))


def newest_revision(embedding_id: str | None) -> Select[str]:
    """Return the query for the name of `latest_revision`."""
    names = select(TrainingSet.revision).where(_comparable(embedding_id))
    return names.order_by(TrainingSet.ordinal.desc()).limit(1)


def revision_before(session: Session, training_set: TrainingSet, embedding_id: str | None = None) -> TrainingSet | None:
    """Return its parent, or the one posted before it; its vectors are read only once they are asked for."""
    if training_set.parent is not None:
        parent = session.get(TrainingSet, training_set.parent, options=LATER)
        if parent is not None:
            return parent
    older = (TrainingSet.ordinal < training_set.ordinal, _comparable(embedding_id))
    earlier = select(TrainingSet).options(*LATER).where(*older)
    return session.scalar(earlier.order_by(TrainingSet.ordinal.desc()).limit(1))


def with_parents(session: Session, training_set: TrainingSet) -> list[TrainingSet]:
    """Return the training set and those that it grew out of, nearest first: together they are what it reaches."""
    return [training_set, *_chain(session, training_set.parent, training_set.embedding_id)]


def count_others(session: Session, embedding_id: str | None) -> int:
    """How many training sets are of other embeddings, and so compared with nothing here."""
    others = select(func.count()).select_from(TrainingSet).where(~_comparable(embedding_id))
    return session.scalar(others) or 0


def _comparable(embedding_id: str | None) -> ColumnElement[bool]:
    if embedding_id is None:
        return true()
    return or_(TrainingSet.embedding_id.is_(None), TrainingSet.embedding_id == embedding_id)


def cover_newest(session: Session, run: Run | None, settings: CurationSettings) -> None:
    """See to it that a run's coverage by the newest training set, and by the one before, is stored.

    Called by whoever adds a run or a training set, and again when nothing else is to do, because two such
    transactions at once do not see each other.
    """
    if run is None:
        return
    newest = latest_revision(session, run.embedding_id)
    if newest is None:
        return
    for training_set in (newest, revision_before(session, newest, run.embedding_id)):
        if training_set is not None and not _is_covered(session, run, training_set):
            cover_run(session, run.id, training_set, settings)


def cover_run(session: Session, run_id: str, training_set: TrainingSet, settings: CurationSettings) -> None:
    """Compute and store the coverage of every cluster of a run. Repeating it changes nothing."""
    training = _joined(with_parents(session, training_set))
    members: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    for clusters, rows in _member_pages(session, run_id):
        near = nearest_distance(vectors.matrix(rows), training) <= training_set.eps_cov
        members.update(clusters)
        covered.update(cluster for cluster, reached in zip(clusters, near.tolist(), strict=True) if reached)
    values = []
    for cluster_id, count in members.items():
        found = judged(covered[cluster_id], count, settings.covered_share, settings.uncovered_share)
        values.append(
            {
                "cluster_id": cluster_id,
                "revision": training_set.revision,
                "run_id": run_id,
                "state": found.state.value,
                "members": found.members,
                "covered": found.covered,
                "share": found.share,
                "low": found.low,
                "high": found.high,
                "eps_cov": training_set.eps_cov,
            }
        )
    for first in range(0, len(values), LIMITS.coverage_rows):
        part = insert(CoverageRow).values(values[first : first + LIMITS.coverage_rows])
        session.execute(part.on_conflict_do_nothing())


def _member_pages(session: Session, run_id: str) -> Iterator[tuple[list[str], list[bytes]]]:
    """Clusters and vectors of a run's members, some at a time."""
    key = tuple_(Member.cluster_id, Member.rank)
    wanted = select(Member.cluster_id, Member.rank, Member.vector).join(ClusterRow, ClusterRow.id == Member.cluster_id)
    wanted = wanted.where(ClusterRow.run_id == run_id).order_by(Member.cluster_id, Member.rank).limit(LIMITS.rows)
    after: tuple[str, int] | None = None
    while rows := session.execute(wanted if after is None else wanted.where(key > after)).all():
        yield [row[0] for row in rows], [row[2] for row in rows]
        after = (rows[-1][0], rows[-1][1])


def _is_covered(session: Session, run: Run, training_set: TrainingSet) -> bool:
    stored = select(func.count()).where(CoverageRow.run_id == run.id, CoverageRow.revision == training_set.revision)
    return (session.scalar(stored) or 0) >= run.clusters


def _chain(session: Session, revision: str | None, embedding_id: str | None = None) -> list[TrainingSet]:
    """The training set of `revision` and its parents, nearest first. Unknown parents, rings and another embedding
    end the chain.
    """
    if revision is None:
        return []
    start = select(TrainingSet.revision, TrainingSet.parent, literal(0).label("step"))
    told = start.where(TrainingSet.revision == revision).cte("chain", recursive=True)
    further = select(TrainingSet.revision, TrainingSet.parent, told.c.step + 1)
    followed = further.join(told, TrainingSet.revision == told.c.parent).where(told.c.step + 1 < LIMITS.chain)
    names = told.union_all(followed)
    query = select(TrainingSet).join(names, names.c.revision == TrainingSet.revision).order_by(names.c.step)
    chain: list[TrainingSet] = []
    for found in session.scalars(query):
        if found in chain or _apart(found.embedding_id, embedding_id):
            break
        chain.append(found)
    return chain


def _apart(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def _joined(sets: list[TrainingSet]) -> NDArray[np.float32]:
    return vectors.matrix(one.matrix for one in sets)
