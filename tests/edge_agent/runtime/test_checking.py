"""The checking mode finds wrong plans that give plausible pixels, and nothing in sound ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.npu.program import Op, Program, ProgramWriter, Space
from contracts.npu.spec import load_spec
from edge_agent.runtime.npu.checking import check_profile
from tests.edge_agent.runtime.assembler import Assembler, layer, region, residual_net

SPEC = load_spec("npu-4t")
Stream = NDArray[np.void]


def changed(file: bytes, change: Callable[[Stream], object]) -> Program:
    program = Program.open(file)
    stream = program.commands(0).copy()
    change(stream)
    writer = ProgramWriter(program.target, program.build_id)
    writer.add_profile(program.profiles[0], stream)
    return Program.open(writer.to_bytes(program.names, program.constants.tobytes(), program.quant.tobytes()))


def conv_at(stream: Stream, number: int) -> int:
    return int(np.flatnonzero(stream["op"] == Op.CONV)[number])


def test_a_sound_plan_has_no_findings() -> None:
    assert check_profile(Program.open(residual_net().program), 0, SPEC) == []


def test_a_read_of_bytes_that_nothing_wrote_is_found() -> None:
    program = changed(residual_net().program, lambda s: s["src"]["offset"].__setitem__(conv_at(s, 1), 2 * 1024 * 1024))
    assert "reads bytes that nothing wrote" in check_profile(program, 0, SPEC)[0]


def test_a_tensor_on_top_of_another_is_found() -> None:
    def change(stream: Stream) -> None:
        first, second, third = (conv_at(stream, number) for number in range(3))
        stream["dst"]["offset"][first] = stream["src"]["offset"][second] = 3 * 1024 * 1024
        inside = stream["residual"]["offset"][third] + 132  # the middle map starts inside of the trunk
        stream["dst"]["offset"][second] = stream["src"]["offset"][third] = inside
        stream["dst"]["offset"][third] = 2 * 1024 * 1024

    findings = check_profile(changed(residual_net(blocks=1).program, change), 0, SPEC)
    assert any("wrote as another tensor" in text for text in findings)


def dma_program(wait_for_dma: bool, wait_for_compute: bool) -> Program:
    """A frame arrives by DMA, is convolved; then its place is used again by a second DMA and a second
    convolution.
    """
    random = np.random.default_rng(0)
    size = (8, 8, 4)
    one, two = layer(random, 4, 4), layer(random, 4, 4)
    build = Assembler(names=["a", "b"])
    place = region(Space.SRAM, build.room(256), size)
    results = [region(Space.DDR, 1024 * (1 + index), size) for index in range(2)]
    arrive = int(build.command(Op.DMA, src=region(Space.DDR, 0, size), dst=place)["event"])
    first = build.conv(place, results[0], one.weights, one.bias, one.mult, flags=1, wait=wait_for_dma * arrive)
    source = region(Space.DDR, 1024, size)
    again = build.command(Op.DMA, src=source, dst=place, wait=wait_for_compute * int(first["event"]))
    arrive = int(again["event"])
    build.conv(place, results[1], two.weights, two.bias, two.mult, flags=1, kernel=1, wait=wait_for_dma * arrive)
    outputs = [("a", 1024, size), ("b", 2048, size)]
    return Program.open(build.program(size, outputs, 4096))


def test_waits_that_are_there_make_the_order_of_queues_irrelevant() -> None:
    assert check_profile(dma_program(True, True), 0, SPEC) == []


@pytest.mark.parametrize(
    ("dma", "compute", "words"),
    [(False, True, "no wait orders before it"), (True, False, "no wait orders after it")],
)
def test_a_missing_wait_is_found(dma: bool, compute: bool, words: str) -> None:
    assert any(words in text for text in check_profile(dma_program(dma, compute), 0, SPEC))


@pytest.mark.parametrize(("last", "findings"), [(1, 0), (0, 1)])
def test_in_a_map_with_segments_every_transfer_is_a_step(last: int, findings: int) -> None:
    program = dma_program(True, True)
    place, constants = 256, len(program.constants) + len(program.quant)
    lives = [(0, last), (2, 3)]  # the frame's copy, then the second copy in the same bytes
    buffers = [
        {"space": "SRAM", "name": f"b{i}", "offset": 0, "size": place, "first_step": first, "last_step": end}
        for i, (first, end) in enumerate(lives)
    ]
    held = {"space": "SRAM", "name": "<constants>", "offset": place, "size": 2 * constants}
    buffers.append({**held, "first_step": 0, "last_step": 3})
    memory_map = {"segments": [{"first": "a", "last": "b", "rows": 8}], "buffers": buffers}
    assert len(check_profile(program, 0, SPEC, memory_map)) == findings


def concatenation(shift: int = 0) -> Program:
    """Two convolutions write windows of one map, a third reads both; `shift` moves the second window."""
    random, size = np.random.default_rng(2), (8, 8, 4)
    one, two, both = layer(random, 4, 3), layer(random, 4, 5), layer(random, 8, 4)
    build = Assembler(names=["a", "prologue"])
    offset = build.room(8 * 8 * 8 + 128)
    window = {"row_stride": 64, "pixel_stride": 8}
    parts = [region(Space.SRAM, offset + start, (8, 8, count), **window) for start, count in ((0, 3), (3 + shift, 5))]
    source = region(Space.DDR, 0, size)
    for item, part in zip((one, two), parts, strict=True):
        build.conv(source, part, item.weights, item.bias, item.mult, flags=1)
    whole, out = region(Space.SRAM, offset, (8, 8, 8)), region(Space.DDR, 256, size)
    build.conv(whole, out, both.weights, both.bias, both.mult, flags=1)
    return Program.open(build.program(size, [("y", 256, size)], 512))


def test_windows_of_one_map_are_no_other_tensor() -> None:
    assert check_profile(concatenation(), 0, SPEC) == []


def test_a_window_that_straddles_pixels_is_found() -> None:
    assert any("as another tensor" in text for text in check_profile(concatenation(shift=2), 0, SPEC))


def test_commands_without_an_event_are_waited_for_by_nobody() -> None:
    def change(stream: Stream) -> None:
        unheard = ~np.isin(stream["event"], stream["wait"][stream["wait"] > 0])
        stream["event"][unheard] = 0

    sound, broken = (dma_program(wait_for_dma, True) for wait_for_dma in (True, False))
    for program, findings in ((sound, 0), (broken, 1)):
        data = ProgramWriter(program.target, program.build_id)
        stream = program.commands(0).copy()
        change(stream)
        data.add_profile(program.profiles[0], stream)
        file = data.to_bytes(program.names, program.constants.tobytes(), program.quant.tobytes())
        assert len(check_profile(Program.open(file), 0, SPEC)) == findings


def chain(third_at: int | None = None) -> tuple[Program, dict[str, object]]:
    """Three convolutions one after another, then first + third; a wrong plan puts the third on the first."""
    random = np.random.default_rng(1)
    size = (8, 8, 4)
    build = Assembler(names=["a", "b", "c", "d"])
    offsets = [build.room(512) for _ in range(3)]
    offsets[2] = offsets[2] if third_at is None else offsets[0] + third_at
    places = [region(Space.SRAM, offset, size) for offset in offsets]
    source = region(Space.DDR, 0, size)
    for index, place in enumerate(places):
        item = layer(random, 4, 4)
        build.conv(source, place, item.weights, item.bias, item.mult, flags=1, kernel=index)
        source = place
    out = region(Space.DDR, 1024, size)
    scales = {"a_scale": 1.0, "b_scale": 1.0, "c_scale": 2.0}
    build.command(Op.ADD, src=places[0], residual=places[2], dst=out, flags=1, kernel=3, **scales)
    lives = [(0, 3), (1, 2), (2, 3)]
    tensors = [
        {"space": "SRAM", "name": f"t{i}", "offset": offsets[i], "size": 256, "first_step": a, "last_step": b}
        for i, (a, b) in enumerate(lives)
    ]
    constants = {"space": "SRAM", "name": "<constants>", "offset": 1536, "size": build.sram_used - 1536}
    buffers = [*tensors, {**constants, "first_step": 0, "last_step": 3}]
    return Program.open(build.program(size, [("y", 1024, size)], 2048)), {"buffers": buffers}


def test_a_sound_plan_is_the_same_without_reuse() -> None:
    program, memory_map = chain()
    assert check_profile(program, 0, SPEC, memory_map) == []


def test_a_buffer_that_is_reused_too_early_is_found() -> None:
    program, memory_map = chain(third_at=128)
    findings = check_profile(program, 0, SPEC, memory_map)
    assert any("differs without reuse" in text for text in findings)


def test_two_buffers_of_one_place_at_one_time_are_found() -> None:
    program, memory_map = chain(third_at=0)
    assert check_profile(program, 0, SPEC) == []  # the stream alone cannot tell
    findings = check_profile(program, 0, SPEC, memory_map)
    assert any("lie in buffers: t0, t2" in text for text in findings)


@pytest.mark.parametrize("broken", [{}, {"buffers": 3}, {"buffers": [{"space": "SRAM"}]}, {"buffers": []}])
def test_a_memory_map_of_another_program_is_found(broken: dict[str, object]) -> None:
    program, _ = chain()
    assert any("memory map" in text for text in check_profile(program, 0, SPEC, broken))


def test_a_life_that_ends_too_early_in_the_map_is_found() -> None:
    program, memory_map = chain()
    buffers = memory_map["buffers"]
    assert isinstance(buffers, list)
    buffers[2]["first_step"], buffers[2]["last_step"] = 2, 3
    buffers[0]["last_step"] = 2
    buffers.append({**buffers[0], "name": "late alias", "first_step": 3, "last_step": 3})
    buffers[0]["last_step"] = 1
    findings = check_profile(program, 0, SPEC, memory_map)
    assert any("after its last planned step" in text for text in findings)
