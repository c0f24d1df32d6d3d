"""Which training clips stand in for a cluster: of each of its hardest members the nearest training vector.

A clip stands in for a member where it is the nearest of all; it reaches the member where it lies within the training
set's `eps_cov` too, which is what coverage counts.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from sqlalchemy.orm import Session

from services.curation import training, vectors
from services.curation.domain.coverage import nearest
from services.curation.limits import LIMITS
from services.curation.models import ClusterRow, Member, Run, TrainingSet
from services.curation.queries import hardest
from services.curation.schemas import StandIn, StandInReport

Place = tuple[str, str, str]
"""Revision, video, condition."""


def stand_ins(session: Session, row: ClusterRow) -> StandInReport:
    """The clips of the newest training set and its parents that lie nearest to the cluster's hardest members."""
    newest = training.latest_revision(session, session.get_one(Run, row.run_id).embedding_id)
    if newest is None:
        return StandInReport(cluster_id=row.id)
    sets = training.with_parents(session, newest)
    members = hardest(session, row.id)
    places, distances = _nearest(members, sets)
    found: dict[Place, list[float]] = defaultdict(list)
    for place, distance in zip(places, distances, strict=True):
        found[place].append(distance)
    ordered = sorted(found.items(), key=lambda entry: (-len(entry[1]), min(entry[1]), entry[0]))
    return StandInReport(
        cluster_id=row.id,
        revision=newest.revision,
        eps_cov=newest.eps_cov,
        members=len(members),
        items=tuple(_shown(place, near, newest.eps_cov) for place, near in ordered[: LIMITS.stand_ins]),
        further=max(0, len(ordered) - LIMITS.stand_ins),
    )


def _nearest(members: list[Member], sets: list[TrainingSet]) -> tuple[list[Place], list[float]]:
    everything = vectors.matrix(one.matrix for one in sets)
    if not members or not len(everything):
        return [], []
    owners = [
        (one.revision, video, condition)
        for one in sets
        for video, condition in zip(one.videos, one.conditions, strict=True)
    ]
    index, distance = nearest(vectors.matrix(member.vector for member in members), everything)
    return [owners[place] for place in index.tolist()], np.round(distance, 6).tolist()


def _shown(place: Place, near: list[float], eps: float) -> StandIn:
    revision, video, condition = place
    reached = sum(1 for distance in near if distance <= eps)
    return StandIn(
        revision=revision, video=video, condition=condition, members=len(near), reached=reached, nearest=min(near)
    )
