"""Builds: a quantised model becomes a gated bundle."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from contracts.wire.base import Answer, Message
from contracts.wire.search import SearchRecord


class BuildState(StrEnum):
    """Life of a build."""

    QUEUED = "queued"
    COMPILING = "compiling"
    GATING = "gating"
    PASSED = "passed"
    BLOCKED = "blocked"
    REFUSED = "refused"
    FAILED = "failed"


class BuildRequest(Message):
    """The `meta` part of POST /builds/v1/builds. `profiles` are input sizes (rows, columns)."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$")]
    release_version: Annotated[str, StringConstraints(pattern=r"^[0-9a-zA-Z._-]{1,32}$")]
    security_epoch: Annotated[int, Field(ge=0)] = 1
    targets: Annotated[tuple[str, ...], Field(min_length=1, max_length=8)] = ("npu-4t", "npu-2t")
    profiles: Annotated[tuple[tuple[int, int], ...], Field(min_length=1, max_length=16)]
    little: Literal["auto", "same", "none"] = "auto"
    """Kernels for the little core of hot or nearly empty devices; auto: unless they make the bundle too large."""
    entropy: Literal["auto", "on", "off"] = "off"
    """Constants written with fewer bits, decoded at load; auto: where that is worth it. Devices must read format 4."""
    evaluation_sets: Annotated[tuple[str, ...], Field(max_length=16)] = ()
    parent_build: str | None = None
    float_psnr: dict[str, float] = Field(default_factory=dict)
    """PSNR (dB, RGB) of the FP32 model on each named evaluation set, for the INT8 drop check."""
    lineage: dict[str, str] = Field(default_factory=dict)
    """Free provenance: MLflow run, alarm id, corpus hash, cluster ids."""
    search: SearchRecord | None = None
    """The search that the model comes from; GET /builds/v1/builds/{id}/search gives it back."""


class GateCheck(Answer):
    """One rule of the gate with the measured value and its limit."""

    id: str
    value: float
    limit: float
    unit: str = ""
    ok: bool
    detail: str = ""


class GateVerdict(Answer):
    """All rules together: passed only when every check is ok."""

    passed: bool
    checks: tuple[GateCheck, ...] = ()
    reasons: tuple[str, ...] = ()


class Build(Answer):
    """A build as the service knows it."""

    id: str
    name: str
    state: BuildState
    release_version: str
    security_epoch: int
    digest: str = ""
    size_bytes: int = 0
    production: bool = False
    verdict: GateVerdict | None = None
    message: str = ""
    remedy: str = ""
    created: float
    finished: float | None = None
    lineage: dict[str, str] = Field(default_factory=dict)


class BuildList(Answer):
    """A page of builds."""

    items: tuple[Build, ...]
    next_cursor: str | None = None


class EvaluationSet(Answer):
    """Held-out frames with ground truth that the gate plays on devices. `condition` is normal or hard."""

    id: str
    name: str
    condition: str
    frames: int
    sha256: str
    created: float


class EvaluationSetList(Answer):
    """All evaluation sets."""

    items: tuple[EvaluationSet, ...]
    next_cursor: str | None = None
