"""Calls of held-out clips: what the device sees of every frame, and what the condition really cost there.

The cost is measured, never predicted: luma PSNR of the shipped upscaler's output against the clean scene, in a healthy
call less here, frame by frame of the same clip. A dark target flatters PSNR by 20 log10(1 / gain), which is taken back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from contracts.statistics import ObserverParameters
from edge_agent.observers.evidence import hardness
from edge_agent.observers.signs import signs_of
from edge_agent.picture import motion_between
from flows.data.clips import Frames
from flows.data.codec import Received
from flows.data.corpus import Corpus, Split, read
from flows.data.degrade import NORMAL, Degradation, call, degrade, expose, shrink
from flows.quality.runner import QualityRunner
from flows.tasks.vsr.metrics import Upscaler, psnr_y

FRAMES = 24
_SMALLEST = 128


@dataclass(frozen=True)
class View:
    """A held-out clip at one scale: high-resolution frames [n, h, w, 3]."""

    name: str
    high: Frames
    fps: float


@dataclass(frozen=True)
class Watched:
    """What a device sees: features u8 [n, rows, cols, 16], scores in dB [n], motion in LSB [n], and the scores of the
    quality net alone [n].
    """

    features: NDArray[np.uint8]
    scores: NDArray[np.float64]
    motion: NDArray[np.float64]
    pictures: NDArray[np.float64]

    @property
    def blind(self) -> Watched:
        """The same by the quality net alone."""
        return replace(self, scores=self.pictures)


@dataclass(frozen=True)
class Call:
    """One view under one condition: what was seen, and the measured loss in dB of each frame."""

    view: str
    condition: str
    watched: Watched
    losses: NDArray[np.float64]


class Eyes:
    """The product's quality net and score."""

    def __init__(self, quality_model: bytes, observer: ObserverParameters) -> None:
        self._runner, self._observer = QualityRunner(quality_model), observer

    def watch(self, received: Received) -> Watched:
        """Look at received frames, at plain signs in them and at what their decoder says, as a device does."""
        low, tau = received.frames, self._observer.tau
        seen = self._runner.observe(low)
        pictures = np.array([self._observer.score(embedding) for embedding in seen.embedding])
        every = zip(pictures, received.quantisers, low, strict=True)
        scores = np.array([hardness(float(score), tau, float(step), signs_of(frame)) for score, step, frame in every])
        before = [None, *low[:-1]]
        motion = [motion_between(a, b) for a, b in zip(before, low, strict=True)]
        return Watched(seen.features, scores, np.array(motion), pictures)


def held_out_views(corpus: Corpus) -> list[View]:
    """Every held-out clip of 16 frames or more, whole and at half size where it is large enough."""
    return [
        View(f"{clip.id}@{scale}", read(clip, limit=FRAMES, scale=scale), clip.fps)
        for clip in corpus.of(Split.HELD_OUT)
        for scale in (1, 2)
        if clip.frames >= 16 and min(clip.width, clip.height) // scale >= _SMALLEST
    ]


def measure(view: View, condition: str, degradation: Degradation, eyes: Eyes, upscale: Upscaler) -> Call:
    """Play a view under a condition."""
    received = call(shrink(view.high, 2), degradation, view.fps)
    target = expose(view.high, degradation.gain)
    healthy_low, healthy_target = degrade(view.high, NORMAL, view.fps)
    healthy = psnr_y(upscale(healthy_low), healthy_target)
    here = psnr_y(upscale(received.frames), target) + 20.0 * math.log10(degradation.gain)
    return Call(view.name, condition, eyes.watch(received), np.asarray(healthy - here, np.float64))


def good_calls(views: Sequence[View], crfs: Sequence[float], eyes: Eyes) -> list[Watched]:
    """Every view in healthy calls of these qualities."""
    return [eyes.watch(call(shrink(view.high, 2), Degradation(crf=crf), view.fps)) for view in views for crf in crfs]
