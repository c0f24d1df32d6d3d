"""Bundles from the real compiler and random weights, for tests of the agent on the emulated NPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from compiler.driver import compile_bundle
from tests.support.agent_twin import ToyBundle, toy_observer
from tests.support.models import quality_qdq, vsr_qdq

SIZE = (72, 88)


def compile_real(
    folder: Path, version: str, seed: int = 0, security_epoch: int = 1, size: tuple[int, int] = SIZE, tau: float = 1e9
) -> ToyBundle:
    """Compile a small net for both targets; `tau` is the hard threshold of its observer."""
    path = folder / f"{version}.elb"
    observer = replace(toy_observer(), tau=tau, embedding_id="real-1")
    report = compile_bundle(
        vsr_qdq(seed=seed),
        quality_qdq(),
        observer.to_bytes(),
        ["npu-4t", "npu-2t"],
        [size],
        {},
        path,
        version,
        security_epoch,
    )
    return ToyBundle(path, report.digest, version, security_epoch)
