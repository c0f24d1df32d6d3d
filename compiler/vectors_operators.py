"""Golden vectors of the operators beyond convolution and addition: ``python -m compiler.vectors_operators > FILE``.

The file is ``contracts/npu/vectors/operators.json``. Maps are lists of rows of pixels of channels; scales are exact
float32 numbers. Ties, clamps and borders are over-represented on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from compiler import golden_host, golden_vector
from compiler.golden import Image, mirrored
from compiler.golden import add as add_bytes
from compiler.ir import (
    Clamp,
    Conv,
    Host,
    HostFunction,
    Mul,
    Pool,
    Resize,
    Rounding,
    Transformation,
    Value,
)
from contracts.npu.program import PoolMode

SEED = 31
COUNT = 60
Vector = dict[str, object]


def vectors() -> dict[str, object]:
    """All vectors, as plain values."""
    makers: dict[str, Callable[[np.random.Generator, int], Vector]] = {
        "subtract": _subtract,
        "multiply": _multiply,
        "pool": _pool,
        "resize": _resize,
        "host": _host,
    }
    random = np.random.default_rng(SEED)
    return {"arithmetic": 1, **{name: [make(random, index) for index in range(COUNT)] for name, make in makers.items()}}


def _value(random: np.random.Generator, shape: tuple[int, int, int], *, tidy: bool) -> Value:
    scale = float(np.float32(random.integers(1, 30) / 255 if tidy else random.uniform(0.002, 0.2)))
    return Value("v", *shape, scale, int(random.integers(0, 256)))


def _image(random: np.random.Generator, value: Value) -> Image:
    return random.integers(0, 256, value.shape, dtype=np.uint8)


def _facts(prefix: str, value: Value) -> Vector:
    return {f"{prefix}_scale": value.scale, f"{prefix}_zp": value.zero_point}


def _subtract(random: np.random.Generator, index: int) -> Vector:
    qa, qb, qc = (_value(random, (1, 1, 1), tidy=index % 2 == 0) for _ in range(3))
    a, b = _image(random, qa), _image(random, qb)
    y = add_bytes(a, b, qa, mirrored(qb), qc, Clamp())
    facts = {**_facts("a", qa), **_facts("b", mirrored(qb)), **_facts("c", qc)}
    return {"a": int(a[0, 0, 0]), "b": int(b[0, 0, 0]), **facts, "y": int(y[0, 0, 0])}


def _multiply(random: np.random.Generator, index: int) -> Vector:
    qa, qb, qc = (_value(random, (1, 1, 1), tidy=index % 2 == 0) for _ in range(3))
    qc = replace(qc, scale=float(np.float32(qa.scale * qb.scale * random.choice([2, 60, 64, 90]))))
    a, b = _image(random, qa), _image(random, qb)
    low, high = (qc.zero_point, 255) if index % 5 == 0 else (0, 255)
    y = golden_vector.multiply(a, b, qa, qb, qc, Mul("m", "a", "b", "c", Clamp(low, high)))
    facts = {**_facts("a", qa), **_facts("b", qb), **_facts("c", qc), "add_lo": low, "add_hi": high}
    return {"a": int(a[0, 0, 0]), "b": int(b[0, 0, 0]), **facts, "y": int(y[0, 0, 0])}


def _pool(random: np.random.Generator, index: int) -> Vector:
    mode, whole = PoolMode(index % 3), index % 7 == 0
    source = _value(random, (4, 5, 2), tidy=True)
    same = mode == PoolMode.MAXIMUM or index % 2 == 0
    result = source if same else _value(random, (1, 1, 1), tidy=False)
    pads = tuple(int(p) for p in random.integers(0, 2, 4))
    step = Pool("p", "x", "y", mode, (2, 3), (1, 2), (pads[0], pads[1], pads[2], pads[3]), whole=whole)
    image = _image(random, source)
    y = golden_vector.pool(image, step, source, result)
    facts = {**_facts("a", source), **_facts("c", result), "mode": int(mode), "global": whole}
    geometry = {"kh": 2, "kw": 3, "sh": 1, "sw": 2, "pads": list(pads)}
    return {**facts, **geometry, "x": image.tolist(), "y": y.tolist()}


def _resize(random: np.random.Generator, index: int) -> Vector:
    linear, transformation, rounding = bool(index % 2), Transformation(index % 3), Rounding(index % 4)
    height, width = (int(extent) for extent in random.integers(1, 9, 2))
    source = _value(random, (3, 4, 1), tidy=True)
    image = _image(random, source)
    step = Resize("r", "x", "y", linear, transformation, rounding)
    y = golden_vector.resize(image, step, replace(source, height=height, width=width))
    facts = {"mode": int(linear), "transformation": int(transformation), "rounding": int(rounding)}
    return {**facts, "x": image.tolist(), "y": y.tolist()}


def _host(random: np.random.Generator, index: int) -> Vector:
    function = HostFunction(index % len(HostFunction))
    shapes = {
        HostFunction.SOFTMAX: ((2, 2, 5), (0, 0, 0), (2, 2, 5)),
        HostFunction.MATRIX_PRODUCT: ((2, 3, 2), (3, 2, 2), (2, 2, 2)),
        HostFunction.DEFORMABLE_ALIGNMENT: ((3, 3, 2), (3, 3, 18), (3, 3, 2)),
        HostFunction.DYNAMIC_UPSAMPLING: ((2, 3, 1), (2, 3, 36), (4, 6, 1)),
        HostFunction.LINEAR_TEMPORAL_ATTENTION: ((2, 2, 2), (2, 2, 8), (2, 2, 2)),
        HostFunction.GLOBAL_MOTION_WARP: ((4, 4, 1), (1, 1, 6), (4, 4, 1)),
    }
    a, b, c = (_value(random, shape, tidy=index % 2 == 0) for shape in shapes[function])
    step = Host("h", function, "a", "b", "c", axis=index % 3, kernel=(3, 3), factor=2)
    facts: Vector = {"function": int(function), "axis": index % 3}
    if function == HostFunction.SOFTMAX:
        c = replace(c, scale=1 / 256, zero_point=0)
    if function == HostFunction.DEFORMABLE_ALIGNMENT:
        conv = _convolution(random, c)
        step = replace(step, convolution=conv)
        facts |= {"weights": conv.weights.tolist(), "bias": conv.bias.tolist()}
        facts["weight_scale"] = [float(scale) for scale in conv.weight_scale]
    left, right = _image(random, a), _image(random, b)
    y = golden_host.execute(step, (left, a), (right, b), c)
    facts |= {**_facts("a", a), **_facts("b", b), **_facts("c", c)}
    return {**facts, "a": left.tolist(), "b": right.tolist(), "y": y.tolist()}


def _convolution(random: np.random.Generator, result: Value) -> Conv:
    weights = random.integers(-127, 128, (2, 2, 3, 3), dtype=np.int8)
    scale = random.uniform(0.002, 0.01, 2).astype(np.float32)
    bias = random.integers(-500, 500, 2).astype(np.int32)
    zero = np.zeros(2, np.int8)
    pads = (1, 1, 1, 1)
    return Conv("c", "a", "c", weights, scale, zero, bias, (1, 1), pads, (1, 1), 1, result.scale, result.zero_point)


def text() -> str:
    """The file: one vector a line."""
    body = vectors()
    parts = []
    for key, rows in body.items():
        if isinstance(rows, list):
            lines = ",\n".join(json.dumps(row, sort_keys=True) for row in rows)
            parts.append(f'"{key}": [\n{lines}\n]')
    return '{\n"arithmetic": 1,\n' + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    print(text(), end="")
