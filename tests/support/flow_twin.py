"""The platform as a flow sees it, in memory: clusters in, builds and rollouts out.

Builds are compiled for real; the gate says what `passes` says. As on the platform, a POST that is repeated under its
key changes nothing, and other content under the same key is refused.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from compiler.driver import compile_bundle
from compiler.options import CompileOptions
from contracts.bundle import Bundle
from contracts.wire import (
    Build,
    BuildRequest,
    BuildState,
    BundleRegistration,
    Cluster,
    Coverage,
    CoverageState,
    EvaluationSet,
    GateCheck,
    GateVerdict,
    Rollout,
    RolloutRequest,
    RolloutState,
    TrainingVectorBatch,
)
from contracts.wire.curation import EvaluationVectorBatch
from flows.errors import PlatformError


class FlowPlatformTwin:
    """Answers like the platform would; `passes` decides how builds end."""

    def __init__(self, members: NDArray[np.float32], eps: float, *, passes: bool = True) -> None:
        self._members, self._eps, self._passes = members, eps, passes
        self.sets: list[EvaluationSet] = []
        self.builds: dict[str, BuildRequest] = {}
        self.models: dict[str, bytes] = {}
        self.bundles: dict[str, bytes] = {}
        self.posts: list[str] = []
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
        digest = hashlib.sha256(archive).hexdigest()
        for known in self.sets:
            if known.sha256 == digest:
                return known
        name = f"set-{len(self.sets)}"
        found = EvaluationSet(id=name, name=name, condition="normal", frames=1, sha256=digest, created=0.0)
        self.sets.append(found)
        return found

    def production_build(self) -> Build | None:
        return None

    def post_build(self, request: BuildRequest, model: bytes, quality: bytes, observer: bytes, key: str) -> Build:
        self.posts.append(key)
        if key in self.builds:
            _same(self.models[key], model, f"build {key}")
            return self._build(key)
        self.builds[key], self.models[key] = request, model
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "candidate.elb"
            compile_bundle(
                model, quality, observer, request.targets, request.profiles, {"name": request.name}, out,
                request.release_version, request.security_epoch, options=CompileOptions(entropy=request.entropy),
            )  # fmt: skip
            self.bundles[key] = out.read_bytes()
        return self._build(key)

    def wait_for_build(self, build_id: str, beat: Callable[[Build], None] | None = None) -> Build:
        return self._build(build_id)

    def build(self, build_id: str) -> Build:
        return self._build(build_id)

    def bundle(self, build_id: str) -> bytes:
        return self.bundles[build_id]

    def post_training_vectors(self, batch: TrainingVectorBatch) -> None:
        for known in self.batches:
            if known.revision == batch.revision:
                _same(known, batch, f"training set {batch.revision}")
                return
        self.batches.append(batch)
        self.order.append("training")

    def post_evaluation_vectors(self, batch: EvaluationVectorBatch) -> None:
        for known in self.judged_by:
            if known.revision == batch.revision:
                _same(known, batch, f"evaluation vectors {batch.revision}")
                return
        self.judged_by.append(batch)
        self.order.append("evaluation")

    def start_curation(self) -> None:
        return None

    def register_bundle(self, request: BundleRegistration) -> None:
        for known in self.registered:
            if known.build_id == request.build_id:
                _same(known, request, f"bundle of build {request.build_id}")
                return
        self.registered.append(request)

    def start_rollout(self, request: RolloutRequest, key: str) -> Rollout:
        self.posts.append(key)
        if key not in self.posts[:-1]:
            self.rollouts.append(request)
        return Rollout(
            id="r1", digest=request.digest, release_version="2", state=RolloutState.RUNNING, stage=0, stages=(),
            version=1, created=0.0,
        )  # fmt: skip

    def _build(self, key: str) -> Build:
        reasons: Sequence[str] = () if self._passes else ("quality.normal: 1 dB below production",)
        check = GateCheck(id="quality.normal", value=0.2 if self._passes else -1.0, limit=-0.05, ok=self._passes)
        return Build(
            id=key, name=self.builds[key].name, state=BuildState.PASSED if self._passes else BuildState.BLOCKED,
            release_version=self.builds[key].release_version, security_epoch=1,
            digest=Bundle.of(memoryview(self.bundles[key]), Path(key)).digest, size_bytes=len(self.bundles[key]),
            created=0.0, verdict=GateVerdict(passed=self._passes, checks=(check,), reasons=tuple(reasons)),
        )  # fmt: skip


def _same(known: object, given: object, what: str) -> None:
    if known != given:
        raise PlatformError(f"{what}: 409, other content under the same key")
