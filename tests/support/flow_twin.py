"""The platform as a flow sees it, in memory: clusters in, builds and rollouts out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from contracts.wire import (
    Build,
    BuildRequest,
    BuildState,
    BundleRegistration,
    Cluster,
    Coverage,
    CoverageState,
    EvaluationSet,
    GateVerdict,
    Rollout,
    RolloutRequest,
    RolloutState,
    TrainingVectorBatch,
)
from contracts.wire.curation import EvaluationVectorBatch


class FlowPlatformTwin:
    """Answers like the platform would; `verdict` decides how builds end."""

    def __init__(self, members: NDArray[np.float32], eps: float, *, passes: bool = True) -> None:
        self._members, self._eps, self._passes = members, eps, passes
        self.sets: list[EvaluationSet] = []
        self.builds: dict[str, BuildRequest] = {}
        self.models: dict[str, bytes] = {}
        self.batches: list[TrainingVectorBatch] = []
        self.judged_by: list[EvaluationVectorBatch] = []
        self.order: list[str] = []
        self.rollouts: list[RolloutRequest] = []
        self.registered: list[BundleRegistration] = []

    def clusters(self) -> tuple[Cluster, ...]:
        vectors = tuple(tuple(map(float, row)) for row in self._members)
        coverage = Coverage(
            state=CoverageState.UNCOVERED, share=0, low=0, high=0.1, members=len(vectors), covered=0, eps_cov=self._eps
        )
        middle = tuple(map(float, self._members.mean(axis=0)))
        return (
            Cluster(
                id="c1", label=0, members=len(vectors), centroid=middle, medoid=vectors[0], radius=1.0, score_mean=2.0,
                coverage=coverage, member_vectors=vectors,
            ),
        )  # fmt: skip

    def post_evaluation_set(self, archive: bytes) -> EvaluationSet:
        name = f"set-{len(self.sets)}"
        found = EvaluationSet(id=name, name=name, condition="normal", frames=1, sha256="0" * 64, created=0.0)
        self.sets.append(found)
        return found

    def production_build(self) -> Build | None:
        return None

    def post_build(self, request: BuildRequest, model: bytes, quality: bytes, observer: bytes, key: str) -> Build:
        self.builds[key], self.models[key] = request, model
        return self._build(key)

    def wait_for_build(self, build_id: str, beat: Callable[[Build], None] | None = None) -> Build:
        return self._build(build_id)

    def post_training_vectors(self, batch: TrainingVectorBatch) -> None:
        self.batches.append(batch)
        self.order.append("training")

    def post_evaluation_vectors(self, batch: EvaluationVectorBatch) -> None:
        self.judged_by.append(batch)
        self.order.append("evaluation")

    def start_curation(self) -> None:
        return None

    def register_bundle(self, request: BundleRegistration) -> None:
        self.registered.append(request)

    def start_rollout(self, request: RolloutRequest, key: str) -> Rollout:
        self.rollouts.append(request)
        return Rollout(
            id="r1", digest=request.digest, release_version="2", state=RolloutState.RUNNING, stage=0, stages=(),
            version=1, created=0.0,
        )  # fmt: skip

    def _build(self, key: str) -> Build:
        reasons: Sequence[str] = () if self._passes else ("quality.normal: 1 dB below production",)
        return Build(
            id=key, name=self.builds[key].name, state=BuildState.PASSED if self._passes else BuildState.BLOCKED,
            release_version=self.builds[key].release_version, security_epoch=1, digest="d" * 96, created=0.0,
            verdict=GateVerdict(passed=self._passes, reasons=tuple(reasons)),
        )  # fmt: skip
