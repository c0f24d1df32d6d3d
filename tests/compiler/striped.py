"""A depth-first program assembled by hand: head, residual blocks in place, tail, stripe by stripe through rings.

Written apart from the compiler's scheduler, so that the verifier and the emulated device are tried on streams that it
never made. Every command of one queue waits for the newest of the other one: simple, and always enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from contracts.npu import COMMAND, REGION, Layout, Op, OutputTensor, Profile, Program, ProgramWriter, Space
from contracts.npu.program import FLAG_DISPATCH, FLAG_LAUNCH

Raw = npt.NDArray[np.void]
TRUNK_ZP, MIDDLE_ZP, TAIL_ZP = 9, 5, 128


@dataclass(frozen=True)
class Net:
    """Extents of the frame, channels, residual blocks, rows of a stripe of the trunk."""

    height: int = 32
    width: int = 32
    channels: int = 16
    blocks: int = 2
    rows: int = 4
    seed: int = 0


@dataclass
class Ring:
    """A buffer of ``rows`` rows, or a whole map; rows are (cols, channels)."""

    space: Space
    offset: int
    rows: int
    cols: int
    channels: int

    def run(self, low: int, high: int, layout: Layout = Layout.NHWC, block: int = 0) -> Raw:
        """Rows ``low..high`` of the map that passes through."""
        region = np.zeros((), REGION)
        fields = (self.space, layout, block, self.offset, high - low, self.cols, self.channels)
        strides = (self.cols * self.channels, self.channels, self.rows, low % self.rows)
        for name, value in zip(REGION.names or (), (*fields, *strides), strict=True):
            region[name] = value
        return region


@dataclass
class _Node:
    """One operation: ``needs`` tells how many rows of it the rows made so far allow."""

    kernel: int
    step: int
    height: int
    needs: Callable[[], int]
    emit: Callable[[int, int], Raw]
    done: int = 0


@dataclass
class _Constants:
    random: np.random.Generator
    data: bytearray = field(default_factory=bytearray)
    quant: bytearray = field(default_factory=bytearray)

    def conv(self, inputs: int, outputs: int, base: int, table: int) -> dict[str, int]:
        """Random constants of a 3x3 convolution; their offsets in SRAM."""
        weights = self.random.integers(-127, 128, (outputs, inputs, 3, 3), dtype=np.int8)
        bias = self.random.integers(-20_000, 20_000, outputs, dtype=np.int32)
        spread = 60 / (127 / np.sqrt(3) * 75 * np.sqrt(inputs * 9))
        multipliers = (self.random.uniform(0.7, 1.3, outputs) * spread).astype("<f4")
        return {
            "weights_offset": base + _append(self.data, weights.tobytes()),
            "bias_offset": base + _append(self.data, bias.astype("<i4").tobytes()),
            "quant_offset": table + _append(self.quant, multipliers.tobytes()),
        }


def striped_program(net: Net | None = None) -> Program:
    """The program of a net."""
    return Program.open(striped_bytes(net or Net()))


def striped_bytes(net: Net) -> bytes:
    """The file of a net."""
    return _Builder(net).build()


class _Builder:
    TABLE, CONSTANTS = 0, 64 * 1024

    def __init__(self, net: Net) -> None:
        self.net = net
        self.half = net.height // 2
        self.constants = _Constants(np.random.default_rng(net.seed))
        self.names = ["head", *(f"block{block}" for block in range(net.blocks)), "tail", "prologue"]
        self.nodes: list[_Node] = []
        self.sram = self.CONSTANTS
        self.convolutions: list[dict[str, int]] = []
        self._weights()
        half, width, channels = self.half, net.width // 2, net.channels
        large = min(half, 3 * net.blocks + 6 + 3 * net.rows)
        small = min(half, 4 + 2 * net.rows)
        self.frame = Ring(Space.DDR, 0, net.height, net.width, 3)
        start = -(-net.height * net.width * 3 // 128) * 128
        self.result = Ring(Space.DDR, start, 2 * net.height, 2 * net.width, 3)
        self.input = self._ring(min(net.height, 2 * (large + net.rows)), net.width, 3)
        self.trunk = self._ring(large, width, channels)
        self.middle = [self._ring(small, width, channels) for _ in range(net.blocks)]
        self.output = self._ring(min(2 * net.height, 4 * 2 * net.rows), 2 * net.width, 3)
        self._nodes()

    def build(self) -> bytes:
        prologue = [
            self._copy(Space.QUANT, self.constants.quant, self.TABLE),
            self._copy(Space.CONST, self.constants.data, self.CONSTANTS),
        ]
        body = self._play()
        stream = np.array([*prologue, *body, np.zeros((), COMMAND)], COMMAND)
        net, last = self.net, self.result
        output = OutputTensor("y", last.rows, last.cols, 3, 1 / 255, 0, last.offset)
        profile = Profile(
            name=f"{net.height}x{net.width}",
            input_height=net.height,
            input_width=net.width,
            input_channels=3,
            input_scale=1 / 255,
            input_zero_point=0,
            input_offset=0,
            outputs=(output,),
            n_prologue=2,
            ddr_extent=last.offset + last.rows * last.cols * 3,
            ddr_bytes=5 * net.height * net.width * 3,
            sram_peak=self.sram,
        )
        writer = ProgramWriter("npu-4t", bytes(16))
        writer.add_profile(profile, stream)
        return writer.to_bytes(self.names, bytes(self.constants.data), bytes(self.constants.quant))

    def _weights(self) -> None:
        channels = self.net.channels
        shapes = [(12, channels), *[(channels, channels)] * (2 * self.net.blocks), (channels, 48)]
        self.convolutions = [self.constants.conv(i, o, self.CONSTANTS, self.TABLE) for i, o in shapes]
        self.sram += len(self.constants.data)

    def _ring(self, rows: int, cols: int, channels: int) -> Ring:
        ring = Ring(Space.SRAM, self.sram, rows, cols, channels)
        self.sram += -(-rows * cols * channels // 128) * 128
        return ring

    def _copy(self, space: Space, data: bytes, offset: int) -> Raw:
        command = np.zeros((), COMMAND)
        command["op"], command["kernel"] = Op.DMA, len(self.names) - 1
        command["src"], command["dst"] = _flat(space, 0, len(data)), _flat(Space.SRAM, offset, len(data))
        return command

    def _nodes(self) -> None:
        net, half, rows = self.net, self.half, self.net.rows
        load = self._add(0, 2 * rows, net.height, lambda: net.height, self._load)
        self._add(0, rows, half, lambda: _reach(load.done // 2, half), self._head)
        for block in range(net.blocks):
            before = self.nodes[-1]
            first = self._add(1 + block, rows, half, self._limit(before), self._first(block))
            self._add(1 + block, rows, half, self._limit(first), self._second(block))
        before = self.nodes[-1]
        tail = self._add(1 + net.blocks, rows, half, self._limit(before), self._tail)
        self._add(1 + net.blocks, 4 * rows, 2 * net.height, lambda: 4 * tail.done, self._store)

    def _limit(self, before: _Node) -> Callable[[], int]:
        return lambda: _reach(before.done, self.half)

    def _add(
        self, kernel: int, step: int, height: int, needs: Callable[[], int], emit: Callable[[int, int], Raw]
    ) -> _Node:
        self.nodes.append(_Node(kernel, step, height, needs, emit))
        return self.nodes[-1]

    def _play(self) -> list[Raw]:
        body: list[Raw] = []
        launched: set[int] = set()
        newest = [0, 0]
        while any(node.done < node.height for node in self.nodes):
            entered = -1
            for node in self.nodes:
                last = min(node.needs(), node.done + node.step, node.height)
                if last <= node.done:
                    continue
                command = node.emit(node.done, last)
                command["kernel"], command["event"] = node.kernel, len(body) + 1
                queue = int(command["op"] != Op.DMA)
                command["wait"], newest[queue] = newest[1 - queue], len(body) + 1
                if queue and node.kernel != entered:
                    command["flags"] |= FLAG_DISPATCH if node.kernel in launched else FLAG_LAUNCH
                    launched.add(node.kernel)
                    entered = node.kernel
                node.done = last
                body.append(command)
        return body

    def _load(self, first: int, last: int) -> Raw:
        return _move(self.frame.run(first, last), self.input.run(first, last))

    def _store(self, first: int, last: int) -> Raw:
        return _move(self.output.run(first, last), self.result.run(first, last))

    def _head(self, first: int, last: int) -> Raw:
        command = self._conv(0, first, last, 0, TRUNK_ZP)
        low, high = max(0, first - 1), min(self.half, last + 1)
        command["src"] = self.input.run(2 * low, 2 * high, Layout.S2D, 2)
        command["dst"] = self.trunk.run(first, last)
        return command

    def _first(self, block: int) -> Callable[[int, int], Raw]:
        def emit(first: int, last: int) -> Raw:
            command = self._conv(1 + 2 * block, first, last, TRUNK_ZP, MIDDLE_ZP)
            command["clamp_lo"] = MIDDLE_ZP
            command["src"] = self.trunk.run(max(0, first - 1), min(self.half, last + 1))
            command["dst"] = self.middle[block].run(first, last)
            return command

        return emit

    def _second(self, block: int) -> Callable[[int, int], Raw]:
        def emit(first: int, last: int) -> Raw:
            command = self._conv(2 + 2 * block, first, last, MIDDLE_ZP, TAIL_ZP)
            command["src"] = self.middle[block].run(max(0, first - 1), min(self.half, last + 1))
            command["dst"] = command["residual"] = self.trunk.run(first, last)
            return _added(command, 0.01 + 0.001 * block, 0.02, 0.02, (TAIL_ZP, TRUNK_ZP, TRUNK_ZP))

        return emit

    def _tail(self, first: int, last: int) -> Raw:
        command = self._conv(1 + 2 * self.net.blocks, first, last, TRUNK_ZP, TAIL_ZP)
        command["src"] = self.trunk.run(max(0, first - 1), min(self.half, last + 1))
        command["residual"] = self.input.run(2 * first, 2 * last, Layout.NEAREST, 2)
        command["dst"] = self.output.run(4 * first, 4 * last, Layout.D2S, 4)
        return _added(command, 0.004, 1 / 255, 1 / 255, (TAIL_ZP, 0, 0))

    def _conv(self, number: int, first: int, last: int, input_zp: int, out_zp: int) -> Raw:
        command = np.zeros((), COMMAND)
        command["op"] = Op.CONV
        for name in ("kh", "kw"):
            command[name] = 3
        for name in ("sh", "sw", "dh", "dw", "pl", "pr", "groups"):
            command[name] = 1
        command["pt"], command["pb"] = first == 0, last == self.half
        command["input_zp"], command["out_zp"], command["clamp_hi"] = input_zp, out_zp, 255
        for name, value in self.convolutions[number].items():
            command[name] = value
        return command


def _move(source: Raw, target: Raw) -> Raw:
    command = np.zeros((), COMMAND)
    command["op"], command["src"], command["dst"] = Op.DMA, source, target
    return command


def _added(command: Raw, a: float, b: float, c: float, zero_points: tuple[int, int, int]) -> Raw:
    command["a_scale"], command["b_scale"], command["c_scale"] = a, b, c
    command["a_zp"], command["b_zp"], command["c_zp"] = zero_points
    command["add_hi"] = 255
    return command


def _flat(space: Space, offset: int, size: int) -> Raw:
    region = np.zeros((), REGION)
    region["space"], region["offset"] = space, offset
    region["rows"] = region["cols"] = 1
    region["channels"] = region["row_stride"] = region["pixel_stride"] = size
    return region


def _reach(rows: int, height: int) -> int:
    """Rows of a 3x3 convolution that ``rows`` rows of its source allow."""
    return height if rows >= height else max(0, rows - 1)


def _append(data: bytearray, piece: bytes) -> int:
    offset = len(data)
    data += piece + bytes(-len(piece) % 128)
    return offset
