"""What a watermark costs the picture, and how surely it is read back.

The committed seed network on the emulated NPU, held-out clips of the default corpus in healthy and hard conditions:
luma PSNR with a mark minus without, for several batches. Reading: the mark itself, the mark after a part of all weights
was rewritten at random, and keys that are not the right one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.mending.seed_bundle import SEEDS
from compiler.driver import compile_bundle
from contracts.bundle import Bundle
from contracts.npu.program import Program
from edge_agent.runtime.backend import BackendOptions
from edge_agent.runtime.npu_backend import NpuBackend
from edge_agent.watermark import Mark, WatermarkError, mark_program, read_program
from edge_agent.watermark.carriers import carriers
from edge_agent.watermark.code import read
from edgeloop.figures import Figure, exactly
from flows.data.clips import Frames
from flows.data.corpus import default_corpus
from flows.tasks.vsr.material import judge_sets
from flows.tasks.vsr.metrics import psnr_y

SETS = ("carphone_pristine normal", "carphone_pristine hard0")
FRAMES, BATCHES, WRONG_KEYS, DAMAGES = 12, 4, 300, 50
DAMAGED = 0.1
KEY = bytes(range(32))


def figures(folder: Path) -> list[Figure]:
    """Accuracy cost and reading."""
    judge = judge_sets(default_corpus(), FRAMES)
    found: list[Figure] = []
    for name in SETS:
        (pair, *_) = judge[name].pairs
        size = (pair.low.shape[1], pair.low.shape[2])
        bundle = _bundle(folder / f"{size[0]}.elb", size)
        found += _cost(name.replace(" ", "."), bundle, pair.low, pair.high)
    return [*found, *_reading(bundle.program("npu-4t", "model"))]


def _cost(name: str, bundle: Bundle, low: Frames, high: Frames) -> list[Figure]:
    plain = psnr_y(_upscaled(bundle, low, None), high)
    drops = [float((plain - psnr_y(_upscaled(bundle, low, batch), high)).mean()) for batch in range(BATCHES)]
    unit = f"dB luma PSNR lost of {plain.mean():.2f}, {BATCHES} batches x {len(low)} frames; worst {max(drops):.4f}"
    return [Figure(f"watermark.{name}.cost", round(float(np.mean(drops)), 4), unit, "printed", True)]


def _upscaled(bundle: Bundle, low: Frames, batch: int | None) -> NDArray[np.uint8]:
    marker = None if batch is None else lambda program, file: mark_program(program, Mark(batch, 490_000 + batch), KEY)
    backend = NpuBackend(BackendOptions(marker=marker))
    backend.load(bundle, "npu-4t")
    return np.stack([backend.upscale(np.ascontiguousarray(frame)).image for frame in low])


def _reading(program: Program) -> list[Figure]:
    mark, places, chance = Mark(1_234, 490_000), carriers(program), np.random.default_rng(9)
    marked = mark_program(program, mark, KEY)
    changed = int((marked.constants != program.constants).sum())
    wrong = sum(_found(marked, bytes([7]) * 16 + index.to_bytes(8, "big")) for index in range(WRONG_KEYS))
    survived = 0
    for _ in range(DAMAGES):
        constants = marked.constants.copy()
        hurt = chance.choice(places, int(DAMAGED * len(places)), replace=False)
        constants[hurt] ^= chance.integers(0, 2, len(hurt), dtype=np.uint8)
        survived += _reads(constants[places], mark)
    return [
        Figure("watermark.changed", changed, f"of {len(places)} weights, one step each", "printed", True),
        exactly("watermark.read", read_program(marked, KEY).mark == mark, "back", True),
        exactly("watermark.read_under_wrong_key", wrong, f"of {WRONG_KEYS} keys", 0),
        exactly("watermark.read_unmarked", _found(program, KEY), "in the network without a mark", False),
        Figure("watermark.read_damaged", survived, f"of {DAMAGES}, a tenth of last bits redrawn", "printed", True),
    ]


def _found(program: Program, key: bytes) -> bool:
    try:
        read_program(program, key)
    except WatermarkError:
        return False
    return True


def _reads(values: NDArray[np.uint8], mark: Mark) -> bool:
    try:
        return read(values, KEY).mark == mark
    except WatermarkError:
        return False


def _bundle(path: Path, size: tuple[int, int]) -> Bundle:
    if not path.exists():
        parts = [(SEEDS / name).read_bytes() for name in ("v1.onnx", "quality.onnx", "observer.npz")]
        compile_bundle(*parts, ["npu-4t"], [size], {}, path, "1.0.0", 1)
    return Bundle.open(path)
