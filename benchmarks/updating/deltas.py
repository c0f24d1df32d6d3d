"""How much of a bundle travels when a network was retrained.

Base: the committed seed network. Results: the same network after a short and a long turn of the loop's own training
(`retrain.py`, `data/made.json`), compiled with the same quality net and observer, and a network of another shape.
"""

from __future__ import annotations

import json
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import zstandard
from numpy.typing import NDArray
from onnx import numpy_helper

from benchmarks.mending.seed_bundle import SEEDS, seed_bundle
from contracts.bundle import Bundle
from contracts.bundle.delta import apply_delta, make_delta
from edge_agent.limits import LIMITS
from edgeloop.figures import Figure, exactly
from tests.support.models import vsr_qdq

DATA = Path(__file__).with_name("data")
MOST_SHARE = 0.35
TURNS = ("short", "long")


@dataclass(frozen=True)
class Sizes:
    """Bytes of one update, and what it is made of."""

    full: int
    full_packed: int
    delta: int
    delta_zlib: int
    programs: int
    programs_delta: int
    apply_ms: float


def figures(folder: Path) -> list[Figure]:
    """Sizes, the distribution of weight steps, and what the device would choose."""
    base = seed_bundle(folder / "base.elb").read_bytes()
    found: list[Figure] = []
    for turn in TURNS:
        model = DATA / f"{turn}.onnx"
        result = seed_bundle(folder / f"{turn}.elb", model, "2.0.0").read_bytes()
        sizes = measure(base, result, folder)
        found += [_share(turn, sizes)]
        found += _printed(f"delta.{turn}", sizes)
        found += _steps(f"delta.{turn}", SEEDS / "v1.onnx", model)
    return [*found, *_other_shape(base, folder)]


def measure(base: bytes, result: bytes, folder: Path) -> Sizes:
    """Make and apply the delta, and count."""
    delta = make_delta(base, result)
    began = time.perf_counter()
    if apply_delta(base, delta) != result:
        raise AssertionError("a delta must lead to the very bytes")
    spent = time.perf_counter() - began
    before, after = _programs(base, folder), _programs(result, folder)
    change = np.frombuffer(after, np.uint8) - np.frombuffer(before, np.uint8)
    return Sizes(
        full=len(result),
        full_packed=len(_packed(result)),
        delta=len(delta),
        delta_zlib=len(zlib.compress(_differences(base, result), 9)),
        programs=len(after),
        programs_delta=len(_packed(change.tobytes())),
        apply_ms=spent * 1e3,
    )


def _printed(name: str, sizes: Sizes) -> list[Figure]:
    rows = (
        ("bytes", sizes.delta, f"of {sizes.full}"),
        ("of_packed", round(sizes.delta / sizes.full_packed, 4), "of the bundle under zstd 19"),
        ("programs", round(sizes.programs_delta / sizes.programs, 4), "of the model.npu of both classes alone"),
        ("zlib", round(sizes.delta_zlib / sizes.full, 4), "of the bundle, zlib 9 in place of zstd"),
        ("apply", round(sizes.apply_ms, 2), "ms, checks included"),
    )
    return [Figure(f"{name}.{row}", value, unit, "printed", True) for row, value, unit in rows]


def _steps(name: str, before: Path, after: Path) -> list[Figure]:
    """How far the INT8 weights moved: the reference's table is for changed shares of 1 to 100 %."""
    old, new = _weights(before), _weights(after)
    steps = np.abs(new.astype(np.int16) - old)
    quantiles = ", ".join(f"p{q:g} {np.quantile(steps, q / 100):.0f}" for q in (50, 75, 90, 99, 100))
    return [
        Figure(f"{name}.changed", round(float((steps > 0).mean()), 4), f"of {old.size} INT8 weights", "printed", True),
        Figure(f"{name}.steps", round(float(steps.mean()), 3), f"LSB on average; {quantiles}", "printed", True),
    ]


def _other_shape(base: bytes, folder: Path) -> list[Figure]:
    """A search that changes the shape: random weights, so nothing is shared but quality net and observer."""
    model = folder / "other.onnx"
    model.write_bytes(vsr_qdq(channels=24, mid=32, blocks=4, seed=1))
    result = seed_bundle(folder / "other.elb", model, "3.0.0").read_bytes()
    delta = make_delta(base, result)
    same = apply_delta(base, delta) == result
    share = len(delta) / len(result)
    use = share < LIMITS.delta_share
    taken = "the delta" if use else "the whole bundle"
    words = f"of the bundle; the device takes {taken} (limit {LIMITS.delta_share:g})"
    return [
        Figure("delta.other_shape.share", round(share, 4), words, "printed", True),
        exactly("delta.other_shape.same_bytes", same, "after applying", True),
    ]


def _share(turn: str, sizes: Sizes) -> Figure:
    share = sizes.delta / sizes.full
    return Figure(f"delta.{turn}.share", round(share, 4), _made(turn), f"<= {MOST_SHARE:g}", share <= MOST_SHARE)


def _made(turn: str) -> str:
    made = json.loads((DATA / "made.json").read_text())[turn]
    steps = f"{made['tune_steps']} + {made['quantise_steps']} steps"
    return f"of the bundle; seeds/v1.npz, {len(made['scenes'])} scenes, {steps} ({made['cpu_s']:g} s of CPU)"


def _weights(path: Path) -> NDArray[np.int8]:
    graph = onnx.load(path).graph
    integers = [tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.INT8]
    arrays = [numpy_helper.to_array(tensor) for tensor in integers]
    return np.concatenate([array.ravel() for array in arrays if array.ndim == 4])


def _programs(bundle: bytes, folder: Path) -> bytes:
    path = folder / "look.elb"
    path.unlink(missing_ok=True)
    path.write_bytes(bundle)
    opened = Bundle.open(path)
    return b"".join(bytes(opened.piece(name)) for name in opened.names if name.endswith("model.npu"))


def _differences(base: bytes, result: bytes) -> bytes:
    """The delta's own payload, unpacked."""
    frame = make_delta(base, result)[112:]
    return zstandard.ZstdDecompressor().stream_reader(frame).read()


def _packed(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=19).compress(data)
