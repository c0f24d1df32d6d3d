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
