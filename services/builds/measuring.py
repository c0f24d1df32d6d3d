"""Plays frames on one device class and turns what came back into `Measurement`s.

A measurement already kept (same bundle, device class, program, frames and lab) is not played again, so a gate that
was killed goes on where it stopped, and production is not measured anew for every candidate. The device is reached
only through the lab protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from contracts.bundle import Bundle
from contracts.lab import LabClient, LabResult
from contracts.npu.program import Profile
from services.builds import quality
from services.builds.evaluation import Frames
from services.builds.limits import WORK
from services.builds.measurements import KernelCost, Measurement
from services.builds.oracle import Oracle

LITTLE = "model-little"
PROGRAMS = ("model", LITTLE, "quality")
SYNTHETIC = "synthetic"


@dataclass(frozen=True)
class Clip:
    """Frames to play, loaded when their turn comes. `frames_key` names them for ever."""

    frames_key: str
    evaluation_set: str
    condition: str
    profile: str
    load: Callable[[], Frames]


def synthetic(profile: str) -> Clip:
    """Frames without meaning for a profile that no set fits: time and traffic are measured all the same."""
    return Clip(f"{SYNTHETIC}-{profile}", "", "none", profile, lambda: _noise(profile))


def first_frames(clip: Clip) -> Clip:
    """The first frames of a clip, under a name of their own."""
    count = WORK.oracle_frames

    def load() -> Frames:
        frames = clip.load()
        return replace(frames, lr=frames.lr[:count], hr=frames.hr[:count], clip=frames.clip[:count])

    return replace(clip, frames_key=f"{clip.frames_key}-first-{count}", load=load)


def _noise(profile: str) -> Frames:
    height, width = (int(side) for side in profile.split("x"))
    shape = (WORK.synthetic_frames, height, width, 3)
    lr = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    return Frames(SYNTHETIC, "none", lr, lr.repeat(2, axis=1).repeat(2, axis=2), np.zeros(len(lr), np.int64))


@dataclass(frozen=True)
class Play:
    """One thing to measure."""

    program: str
    clip: Clip


def plan(bundle: Bundle, target: str, clips: Sequence[Clip]) -> Iterator[Play]:
    """Everything to play on one device class: every set in the profile that fits, synthetic frames where none fits.
    The little kernels are the same net: a few frames of each set say whether they give the oracle's integers.
    """
    for name in PROGRAMS:
        if name == LITTLE and f"{target}/{LITTLE}.npu" not in bundle.names:
            continue
        for profile in bundle.program(target, name).profiles:
            fitting = [clip for clip in clips if clip.profile == profile.name]
            if name == LITTLE:
                fitting = [first_frames(clip) for clip in fitting]
            for clip in fitting or [synthetic(profile.name)]:
                yield Play(name, clip)


def measure(lab: LabClient, bundle: Bundle, target: str, play: Play) -> Measurement:
    """Run one play on the device and compare it with truth and with the oracle."""
    program = bundle.program(target, play.program)
    profile = program.profiles[program.profile_index(play.clip.profile)]
    frames = play.clip.load()
    results = [lab.run(play.program, batch, profile.name) for batch in _batches(frames.lr)]
    outputs = {
        output.name: np.concatenate([result.outputs[output.name] for result in results]) for output in profile.outputs
    }
    apart = _against_oracle(bundle, play.program, profile, frames, outputs)
    seen = _quality(play, frames, outputs[profile.outputs[0].name])
    return Measurement(
        target=target,
        program=play.program,
        profile=play.clip.profile,
        evaluation_set=play.clip.evaluation_set,
        condition=play.clip.condition,
        frames=len(frames.lr),
        latency_ms=tuple(float(value) for result in results for value in result.latency_ms),
        ddr_bytes=max(result.ddr_bytes for result in results),
        sram_peak=max(result.sram_peak for result in results),
        psnr_db=seen.psnr_db,
        nearest_db=seen.nearest_db,
        flicker_lsb=seen.flicker_lsb,
        oracle_largest=apart.largest,
        oracle_share=apart.share,
        oracle_values=apart.values,
        kernels=_kernels(results),
    )


@dataclass(frozen=True)
class _Seen:
    psnr_db: float | None = None
    nearest_db: float | None = None
    flicker_lsb: float | None = None


def _quality(play: Play, frames: Frames, picture: NDArray[np.uint8]) -> _Seen:
    if not play.clip.evaluation_set or play.program != "model":
        return _Seen()
    return _Seen(
        quality.psnr(picture, frames.hr),
        quality.psnr(quality.nearest(frames.lr), frames.hr),
        quality.flicker(picture, frames.hr, frames.clip),
    )


def _against_oracle(
    bundle: Bundle, program: str, profile: Profile, frames: Frames, outputs: Mapping[str, NDArray[np.uint8]]
) -> quality.Disagreement:
    chosen = _spread(len(frames.lr), WORK.oracle_frames)
    expected = Oracle(bundle.piece(f"{_source(program)}.onnx")).run(frames.lr[chosen], profile)
    return quality.merge([quality.disagreement(outputs[name][chosen], expected[name]) for name in expected])


def _source(program: str) -> str:
    return "model" if program == LITTLE else program


def _spread(count: int, wanted: int) -> NDArray[np.int64]:
    """Up to `wanted` indices, spread evenly over `count` frames."""
    return np.unique(np.linspace(0, count - 1, min(count, wanted)).round().astype(np.int64))


def _batches(frames: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    # An answer carries four times the pixels of its request, so the batch is bounded by the answer.
    size = max(1, WORK.lab_batch_bytes // (4 * frames[0].nbytes))
    for start in range(0, len(frames), size):
        yield np.ascontiguousarray(frames[start : start + size])


def _kernels(results: Sequence[LabResult]) -> tuple[KernelCost, ...]:
    return tuple(
        KernelCost(row.name, float(row.microseconds), int(row.ddr_bytes), row.bound_by) for row in results[0].kernels
    )
