"""Tables, pools, products, resizing and host functions equal the arithmetic page, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from contracts.npu.program import FLAG_GLOBAL, FLAG_PER_CHANNEL, Op, PoolMode, Program, Space
from edge_agent.runtime.npu import NpuDevice, PlanViolation
from tests.edge_agent.runtime import operator_reference as page
from tests.edge_agent.runtime.assembler import Assembler, layer, region
from tests.edge_agent.runtime.reference import multiply

Shape = tuple[int, int, int]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def run(
    op: Op, shape: Shape, result: Shape, frame: Bytes, second: Bytes | None = None, table: bytes = b"", **fields: Any
) -> Bytes:
    """Return what one command makes of `frame`, and of a constant second operand."""
    build = Assembler(names=["a", "prologue"])
    if table:
        fields["weights_offset"] = build.load(table)
    if second is not None:
        offset = build.load(second.tobytes())
        fields["residual"] = region(Space.SRAM, offset, second.shape)
    out = -(-frame.size // 128) * 128
    command = {"src": region(Space.DDR, 0, shape), "dst": region(Space.DDR, out, result), "flags": 1, **fields}
    build.command(op, **command)
    program = build.program(shape, [("y", out, result)], out + int(np.prod(result)))
    device = NpuDevice("npu-4t")
    return device.infer(device.load(Program.open(program)), frame).outputs["y"]


def image(shape: Shape, seed: int = 0) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def test_a_table_replaces_every_byte() -> None:
    table, frame = image((1, 1, 256), 1).reshape(-1), image((90, 80, 12))
    assert np.array_equal(run(Op.TABLE, frame.shape, frame.shape, frame, table=table.tobytes()), table[frame])


def test_each_channel_may_have_its_own_table() -> None:
    tables, frame = image((1, 5, 256), 1).reshape(5, 256), image((6, 7, 5))
    expected = np.stack([tables[k][frame[:, :, k]] for k in range(5)], axis=-1)
    flags = 1 | FLAG_PER_CHANNEL
    assert np.array_equal(run(Op.TABLE, frame.shape, frame.shape, frame, table=tables.tobytes(), flags=flags), expected)


def test_a_table_that_a_frame_overwrites_is_read_from_the_arena() -> None:
    size = (1, 1, 256)
    build = Assembler(names=["a"])
    place = build.room(256)
    build.command(Op.DMA, src=region(Space.DDR, 0, size), dst=region(Space.SRAM, place, size))
    source, out = region(Space.DDR, 0, size), region(Space.DDR, 256, size)
    build.command(Op.TABLE, src=source, dst=out, weights_offset=place, flags=1)
    device = NpuDevice("npu-4t")
    loaded = device.load(Program.open(build.program(size, [("y", 256, size)], 512)))
    for seed in range(2):
        frame = image(size, seed)
        table = frame.reshape(-1)
        assert np.array_equal(device.infer(loaded, frame).outputs["y"], table[frame])


@pytest.mark.parametrize("seed", range(3))
def test_a_product_is_the_pages(seed: int) -> None:
    frame, second = image((6, 8, 8), seed), image((6, 8, 8), seed + 9)
    scales = {"a_scale": 0.02, "b_scale": 0.013, "c_scale": 0.011, "a_zp": 120, "b_zp": 3, "c_zp": 99}
    expected = np.clip(multiply(frame, second, scales), 10, 240)
    result = run(Op.MUL, frame.shape, frame.shape, frame, second, add_lo=10, add_hi=240, **scales)
    assert np.array_equal(result, expected)


WINDOWS = [
    {"kh": 2, "kw": 2, "sh": 2, "sw": 2, "dh": 1, "dw": 1, "pt": 0, "pb": 0, "pl": 0, "pr": 0},
    {"kh": 3, "kw": 2, "sh": 1, "sw": 2, "dh": 1, "dw": 1, "pt": 1, "pb": 1, "pl": 0, "pr": 1},
    {"kh": 3, "kw": 3, "sh": 2, "sw": 1, "dh": 2, "dw": 1, "pt": 2, "pb": 0, "pl": 1, "pr": 2},
]


@pytest.mark.parametrize("mode", list(PoolMode))
@pytest.mark.parametrize("window", WINDOWS)
def test_pools_over_windows_are_the_pages(window: dict[str, int], mode: PoolMode) -> None:
    frame = image((7, 9, 3), 4)
    rows = (7 + window["pt"] + window["pb"] - (window["kh"] - 1) * window["dh"] - 1) // window["sh"] + 1
    cols = (9 + window["pl"] + window["pr"] - (window["kw"] - 1) * window["dw"] - 1) // window["sw"] + 1
    fields = {
        **window,
        "input_zp": 17,
        "out_zp": 90,
        "a_scale": 0.02,
        "c_scale": 0.017,
        "clamp_lo": 30,
        "clamp_hi": 250,
    }
    result = run(Op.POOL, frame.shape, (rows, cols, 3), frame, mode=mode, **fields)
    assert np.array_equal(result, page.pool(frame, (rows, cols), fields, mode))


def test_an_average_that_reaches_behind_the_image_counts_what_it_sees() -> None:
    frame = image((5, 5, 2), 1)
    fields = {
        **WINDOWS[0],
        "input_zp": 3,
        "out_zp": 9,
        "a_scale": 0.02,
        "c_scale": 0.02,
        "clamp_lo": 0,
        "clamp_hi": 255,
    }
    result = run(Op.POOL, frame.shape, (3, 3, 2), frame, mode=PoolMode.AVERAGE, **fields)  # as ceil_mode asks
    assert np.array_equal(result, page.pool(frame, (3, 3), fields, PoolMode.AVERAGE))


def test_pools_over_the_whole_map_are_the_pages() -> None:
    frame = image((9, 11, 6), 2)
    fields = {"input_zp": 125, "out_zp": 99, "a_scale": 0.02, "c_scale": 0.004, "flags": 1 | FLAG_GLOBAL}
    average = run(Op.POOL, frame.shape, (1, 1, 6), frame, mode=PoolMode.AVERAGE, **fields)
    assert np.array_equal(average, page.mean(frame, fields))
    assert len(np.unique(average)) > 2
    largest = run(Op.POOL, frame.shape, (1, 1, 6), frame, mode=PoolMode.MAXIMUM, flags=1 | FLAG_GLOBAL)
    assert np.array_equal(largest[0, 0], frame.max(axis=(0, 1)))


@pytest.mark.parametrize("shape", [(10, 14), (4, 5), (3, 1), (15, 7)])
@pytest.mark.parametrize("transformation", range(3))
@pytest.mark.parametrize(("mode", "rounding"), [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)])
def test_resizing_is_the_pages(shape: tuple[int, int], transformation: int, mode: int, rounding: int) -> None:
    frame = image((5, 7, 2), 3)
    result = run(Op.RESIZE, frame.shape, (*shape, 2), frame, mode=mode, kh=transformation, kw=rounding)
    assert np.array_equal(result, page.resize(frame, shape, transformation, rounding, mode))


SCALES = {"a_scale": 0.02, "b_scale": 0.03, "c_scale": 0.04, "a_zp": 110, "b_zp": 130, "c_zp": 100}


@pytest.mark.parametrize("axis", range(3))
def test_softmax_is_the_pages(axis: int) -> None:
    frame = image((4, 5, 6), 5)
    table = np.minimum(np.rint(2.0**30 * np.exp(-np.arange(256) * 0.05)), 2**30).astype("<i4")
    fields = {"mode": 0, "dh": axis, "a_scale": 0.05, "c_scale": 1 / 256, "c_zp": 3}
    result = run(Op.HOST, frame.shape, frame.shape, frame, table=table.tobytes(), **fields)
    along = (2, 0, 1)[axis]
    weights = table.astype(np.int64)[frame.max(axis=along, keepdims=True) - frame]
    share = weights / weights.sum(axis=along, keepdims=True) / np.float64(np.float32(1 / 256))
    assert np.array_equal(result, np.clip(np.rint(share) + 3, 0, 255))


def test_a_matrix_product_is_the_pages() -> None:
    left, right = image((3, 4, 2), 6), image((4, 5, 2), 7)
    result = run(Op.HOST, left.shape, (3, 5, 2), left, right, mode=1, **{**SCALES, "c_scale": 2.0})
    factor = np.float32(np.float32(0.02) * np.float32(0.03)) / np.float32(2.0)
    for h, p, k in np.ndindex(3, 5, 2):
        total = sum((int(left[h, i, k]) - 110) * (int(right[i, p, k]) - 130) for i in range(4))
        assert result[h, p, k] == page.cut(np.rint(np.float32(np.float32(total) * factor)) + 100)


def test_deformable_alignment_is_the_pages() -> None:
    random = np.random.default_rng(8)
    frame, offsets, item = image((6, 5, 3), 8), image((6, 5, 18), 9), layer(random, 3, 4)
    build = Assembler(names=["a", "prologue"])
    second = region(Space.SRAM, build.load(offsets.tobytes()), offsets.shape)
    fields = {**SCALES, "mode": 2, "kh": 3, "kw": 3, "pt": 1, "pl": 1, "out_zp": 100}
    build.command(
        Op.HOST, src=region(Space.DDR, 0, frame.shape), residual=second, dst=region(Space.DDR, 128, (6, 5, 4)),
        flags=1, **build.load_layer(item), **fields,
    )  # fmt: skip
    device = NpuDevice("npu-4t")
    program = Program.open(build.program(frame.shape, [("y", 128, (6, 5, 4))], 512))
    result = device.infer(device.load(program), frame).outputs["y"]
    image_, step = frame.astype(np.int64) - 110, np.float64(np.float32(0.03))
    for y, x, o in np.ndindex(6, 5, 4):
        total = 1024 * int(item.bias[o])
        for tap in range(9):
            down, right = (int(np.rint((int(offsets[y, x, 2 * tap + i]) - 130) * step * 32)) for i in (0, 1))
            at = 32 * (y - 1 + tap // 3) + down, 32 * (x - 1 + tap % 3) + right
            total += sum(page.sample(image_, *at, k) * int(item.weights[o, k, tap // 3, tap % 3]) for k in range(3))
        code = np.rint(np.float32(total) * np.float32(item.mult[o] / np.float32(1024)))
        assert result[y, x, o] == page.cut(code + 100)


def test_dynamic_upsampling_is_the_pages() -> None:
    frame, filters = image((4, 5, 2), 10), image((4, 5, 9 * 4), 11)
    fields = {**SCALES, "c_scale": 1.0, "mode": 3, "kh": 3, "kw": 3, "sh": 2, "pt": 1, "pl": 1}
    result = run(Op.HOST, frame.shape, (8, 10, 2), frame, filters, **fields)
    factor = np.float32(np.float32(0.02) * np.float32(0.03))
    for y, x, k in np.ndindex(result.shape):
        total, place = 0, (y % 2) * 2 + x % 2
        for tap in range(9):
            row, col = y // 2 + tap // 3 - 1, x // 2 + tap % 3 - 1
            if 0 <= row < 4 and 0 <= col < 5:
                weight = int(filters[y // 2, x // 2, tap * 4 + place]) - 130
                total += (int(frame[row, col, k]) - 110) * weight
        assert result[y, x, k] == page.cut(np.rint(np.float32(np.float32(total) * factor)) + 100)


def test_linear_attention_is_the_pages() -> None:
    query, memory = image((2, 3, 4), 12), image((2, 3, 2 * 3 * 4), 13)
    query[0, 0] = 0  # agrees with nothing
    result = run(Op.HOST, query.shape, query.shape, query, memory, mode=4, **SCALES)
    ratio = np.float64(np.float32(0.03) / np.float32(0.04))
    for y, x in np.ndindex(2, 3):
        entries = memory[y, x].reshape(2, 3, 4).astype(int) - 130
        wanted = np.maximum(query[y, x].astype(int) - 110, 0)
        score = [int(np.dot(wanted, np.maximum(key, 0))) for key in entries[0]]
        for k in range(4):
            total = sum(s * int(value[k]) for s, value in zip(score, entries[1], strict=True))
            quotient = np.float64(total) / np.float64(sum(score)) if sum(score) else 0.0
            assert result[y, x, k] == page.cut(np.rint(quotient * ratio) + 100)


def test_a_motion_warp_is_the_pages() -> None:
    frame, motion = image((7, 6, 2), 14), np.array([[[131, 129, 160, 128, 133, 90]]], np.uint8)
    result = run(Op.HOST, frame.shape, frame.shape, frame, motion, mode=5, **SCALES)
    m = [(int(code) - 130) * np.float64(np.float32(0.03)) for code in motion[0, 0]]
    ratio = np.float32(np.float32(np.float32(0.02) / np.float32(0.04)) / np.float32(1024))
    for y, x, k in np.ndindex(frame.shape):
        row = 32 * y + int(np.rint(32 * (m[0] * x + m[1] * y + m[2])))
        col = 32 * x + int(np.rint(32 * (m[3] * x + m[4] * y + m[5])))
        value = page.sample(frame.astype(np.int64) - 110, row, col, k)
        assert result[y, x, k] == page.cut(np.rint(np.float32(np.float32(value) * ratio)) + 100)


@pytest.mark.parametrize(
    ("op", "result", "fields", "words"),
    [
        (Op.TABLE, (4, 4, 3), {}, "a result of"),
        (Op.TABLE, (4, 4, 2), {"weights_offset": 4 * 1024 * 1024 - 8}, "constants end"),
        (Op.POOL, (4, 4, 2), {"mode": 7}, "unknown pooling"),
        (Op.POOL, (4, 4, 2), {"mode": 1, "a_scale": 0.0, "c_scale": 1.0}, "a pooling from scale"),
        (Op.POOL, (9, 4, 2), {"mode": 0}, "outside of the image"),
        (Op.POOL, (2, 1, 2), {"flags": 1 | FLAG_GLOBAL}, "a result of"),
        (Op.POOL, (4, 4, 2), {"sh": 0}, "a pooling with"),
        (Op.RESIZE, (8, 8, 2), {"mode": 3}, "unknown resizing"),
        (Op.RESIZE, (8, 8, 3), {}, "a result of"),
        (Op.HOST, (4, 4, 2), {"mode": 99, "c_scale": 1.0}, "unknown host function"),
        (Op.HOST, (4, 4, 2), {"mode": 1, "c_scale": 1.0}, "of two operands has one"),
        (Op.HOST, (4, 4, 2), {"mode": 0, "c_scale": float("nan")}, "scales"),
        (Op.MUL, (4, 4, 2), {}, "a multiplication of one operand"),
    ],
)
def test_an_operation_that_makes_no_sense_is_refused(op: Op, result: Shape, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanViolation, match=words):
        run(op, (4, 4, 2), result, image((4, 4, 2)), **fields)


@pytest.mark.parametrize("scale", [0.0, float("nan"), float("inf"), -1.0])
def test_operands_without_a_scale_are_refused(scale: float) -> None:
    frame = image((4, 4, 2))
    with pytest.raises(PlanViolation, match="operands of the scales"):
        run(Op.ADD, frame.shape, frame.shape, frame, frame, **{**SCALES, "c_scale": scale})
