"""Golden vectors of the arithmetic, from the golden interpreter: ``python -m compiler.vectors > FILE``
rewrites them.

The file ``contracts/npu/vectors/arithmetic.json`` lets any implementer (a board's driver, another emulator)
check itself. Ties and saturation are over-represented on purpose.
"""

from __future__ import annotations

import json

import numpy as np

from compiler import golden
from compiler.ir import Clamp, Value

SEED = 20
COUNT = 200


def vectors() -> dict[str, object]:
    """All vectors, as plain values; scales are exact float32 numbers written as decimals."""
    random = np.random.default_rng(SEED)
    return {
        "arithmetic": 1,
        "requantize": [_requantize(random, index) for index in range(COUNT)],
        "add": [_add(random, index) for index in range(COUNT)],
    }


def _requantize(random: np.random.Generator, index: int) -> dict[str, object]:
    steps = int(random.integers(1, 2000))
    multiplier = np.float32(random.choice([0.5, 0.1, 0.01, 1 / 3, 2.0**-7, float(random.uniform(1e-4, 1e-1))]))
    tie = int(np.rint((steps % 300 + 0.5) / float(multiplier)))
    accumulator = (tie if index % 2 else int(random.integers(-40_000, 40_000))) * int(random.choice([-1, 1]))
    low, high = sorted(int(v) for v in random.integers(0, 256, 2)) if index % 5 == 0 else (0, 255)
    zero = int(random.integers(0, 256))
    result = golden.requantize(
        np.array([[[accumulator]]], np.int64), np.array([multiplier], np.float32), zero, Clamp(low, high)
    )
    return {
        "accumulator": accumulator,
        "multiplier": float(multiplier),
        "out_zp": zero,
        "clamp_lo": low,
        "clamp_hi": high,
        "y": int(result[0, 0, 0]),
    }


def _add(random: np.random.Generator, index: int) -> dict[str, object]:
    whole = random.integers(1, 30, 3) / 255
    scales = [float(np.float32(s)) for s in (whole if index % 2 else random.uniform(0.002, 0.2, 3))]
    zeros = [int(z) for z in random.integers(0, 256, 3)]
    a, b = (int(v) for v in random.integers(0, 256, 2))
    qa, qb, qc = (Value("v", 1, 1, 1, s, z) for s, z in zip(scales, zeros, strict=True))
    images = [np.full((1, 1, 1), v, np.uint8) for v in (a, b)]
    low, high = (zeros[2], 255) if index % 5 == 0 else (0, 255)
    result = golden.add(images[0], images[1], qa, qb, qc, Clamp(low, high))
    return {
        "a": a,
        "b": b,
        "a_scale": scales[0],
        "b_scale": scales[1],
        "c_scale": scales[2],
        "a_zp": zeros[0],
        "b_zp": zeros[1],
        "c_zp": zeros[2],
        "add_lo": low,
        "add_hi": high,
        "y": int(result[0, 0, 0]),
    }


def text() -> str:
    """The file: one vector a line."""
    body = vectors()
    parts = []
    for key in ("requantize", "add"):
        rows = body[key]
        assert isinstance(rows, list)
        parts.append(f'"{key}": [\n' + ",\n".join(json.dumps(row, sort_keys=True) for row in rows) + "\n]")
    return '{\n"arithmetic": 1,\n' + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    print(text(), end="")
