"""A hand assembler for programs, so that the emulated NPU is tested without the compiler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.npu.program import COMMAND, REGION, Op, OutputTensor, Profile, ProgramWriter, Space

Bytes = NDArray[np.uint8]
BUILD_ID = bytes(range(16))


def region(
    space: Space, offset: int, shape: tuple[int, int, int], *, layout: int = 0, block: int = 0, **strides: int
) -> NDArray[np.void]:
    """Return a REGION with dense strides unless given; `ring_rows` and `ring_first` make it a run of a ring."""
    value = np.zeros((), REGION)
    rows, cols, channels = shape
    fields = {
        "space": space, "layout": layout, "block": block, "offset": offset,
        "rows": rows, "cols": cols, "channels": channels,
        "row_stride": strides.get("row_stride", cols * channels),
        "pixel_stride": strides.get("pixel_stride", channels),
        "ring_rows": strides.get("ring_rows", 0), "ring_first": strides.get("ring_first", 0),
    }  # fmt: skip
    for name, number in fields.items():
        value[name] = number
    return value


@dataclass
class Assembler:
    """Collects commands and constants of one profile."""

    target: str = "npu-4t"
    names: list[str] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)
    quant: bytearray = field(default_factory=bytearray)
    prologue: list[Any] = field(default_factory=list)
    frame: list[Any] = field(default_factory=list)
    sram_used: int = 0
    build_id: bytes = BUILD_ID

    def room(self, size: int) -> int:
        """Reserve SRAM; returns an aligned offset."""
        offset = self.sram_used
        self.sram_used += -(-size // 128) * 128
        return offset

    def command(self, op: Op, **fields: Any) -> NDArray[np.void]:
        """Append a command to the frame (`prologue=True`: to the prologue); returns it for changes."""
        to = self.prologue if fields.pop("prologue", False) else self.frame
        value = np.zeros((), COMMAND)
        defaults = {
            "op": op, "event": len(self.prologue) + len(self.frame) + 1,
            "kh": 1, "kw": 1, "sh": 1, "sw": 1, "dh": 1, "dw": 1, "groups": 1, "clamp_hi": 255, "add_hi": 255,
        }  # fmt: skip
        for name, number in {**defaults, **fields}.items():
            value[name] = number
        to.append(value)
        return value

    def load(self, data: bytes, space: Space = Space.CONST) -> int:
        """Put `data` into CONSTANTS or QUANT, load it in the prologue; returns its SRAM offset."""
        section = self.constants if space == Space.CONST else self.quant
        start, offset = len(section), self.room(len(data))
        section.extend(data.ljust(-(-len(data) // 128) * 128, b"\0"))
        shape = (1, 1, len(data))
        self.command(Op.DMA, src=region(space, start, shape), dst=region(Space.SRAM, offset, shape), prologue=True)
        return offset

    def conv(
        self,
        src: Any,
        dst: Any,
        weights: NDArray[np.int8],
        bias: NDArray[np.int32],
        mult: NDArray[np.float32],
        **fields: Any,
    ) -> NDArray[np.void]:
        """Append a convolution with resident constants; pads keep the size at stride 1.

        `constants`: what `load_layer` returned, when several stripes share one layer.
        """
        constants = fields.pop("constants", None) or self.load_layer(Layer(weights, bias, mult))
        half = weights.shape[2] // 2
        defaults = {
            "pt": half,
            "pb": half,
            "pl": half,
            "pr": half,
            "kh": weights.shape[2],
            "kw": weights.shape[3],
        }
        return self.command(
            Op.CONV,
            src=src,
            dst=dst,
            **{**defaults, **constants, **fields},
        )

    def load_layer(self, item: Layer) -> dict[str, int]:
        """Load a layer's constants in the prologue; returns the command's fields."""
        return {
            "weights_offset": self.load(item.weights.tobytes()),
            "bias_offset": self.load(item.bias.astype("<i4").tobytes()),
            "quant_offset": self.load(item.mult.astype("<f4").tobytes(), Space.QUANT),
        }

    def program(
        self, size: tuple[int, int, int], outputs: list[tuple[str, int, tuple[int, int, int]]], extent: int
    ) -> bytes:
        """Return the file."""
        stream = np.zeros(len(self.prologue) + len(self.frame) + 1, COMMAND)
        for index, command in enumerate([*self.prologue, *self.frame]):
            stream[index] = command
        profile = Profile(
            name=f"{size[0]}x{size[1]}",
            input_height=size[0],
            input_width=size[1],
            input_channels=size[2],
            input_scale=1 / 255,
            input_zero_point=0,
            input_offset=0,
            outputs=tuple(OutputTensor(n, *shape, 1 / 255, 0, offset) for n, offset, shape in outputs),
            n_prologue=len(self.prologue),
            ddr_extent=extent,
            ddr_bytes=0,
            sram_peak=self.sram_used,
        )
        writer = ProgramWriter(self.target, self.build_id)
        writer.add_profile(profile, stream)
        return writer.to_bytes(self.names, bytes(self.constants), bytes(self.quant))


@dataclass(frozen=True)
class Layer:
    """Random constants of one convolution."""

    weights: NDArray[np.int8]
    bias: NDArray[np.int32]
    mult: NDArray[np.float32]


def layer(random: np.random.Generator, inputs: int, outputs: int, kernel: int = 3) -> Layer:
    """Return constants that spread results over 0..255."""
    spread = 127 / np.sqrt(3) * 75 * np.sqrt(inputs * kernel * kernel)
    return Layer(
        random.integers(-127, 128, (outputs, inputs, kernel, kernel)).astype(np.int8),
        random.integers(-20_000, 20_000, outputs).astype(np.int32),
        (random.uniform(0.7, 1.3, outputs) * 60 / spread).astype(np.float32),
    )


ADD = {"a_scale": 0.021, "a_zp": 119, "b_scale": 0.034, "b_zp": 7, "c_scale": 0.041, "c_zp": 11}
ANCHOR = {"a_scale": 0.004, "a_zp": 128, "b_scale": 1 / 255, "b_zp": 0, "c_scale": 1 / 255, "c_zp": 0}


@dataclass(frozen=True)
class Net:
    """A hand-assembled residual x2 net, its constants and its file."""

    program: bytes
    layers: tuple[Layer, ...]
    size: tuple[int, int, int]


def residual_net(
    height: int = 12,
    width: int = 16,
    channels: int = 8,
    blocks: int = 2,
    seed: int = 0,
    target: str = "npu-4t",
) -> Net:
    """Head (S2D from DDR), residual blocks in place, tail (D2S, anchor) to DDR."""
    random = np.random.default_rng(seed)
    build = Assembler(target, names=["head", *(f"block{i}" for i in range(blocks)), "tail"])
    size = (height, width, 3)
    half = (height // 2, width // 2)
    layers = [layer(random, 12, channels)]
    trunk = region(Space.SRAM, build.room(half[0] * half[1] * channels), (*half, channels))
    middle = region(Space.SRAM, build.room(half[0] * half[1] * channels), (*half, channels))
    frame = region(Space.DDR, 0, size, layout=1, block=2)
    head = layers[0]
    build.conv(frame, trunk, head.weights, head.bias, head.mult, out_zp=7, clamp_lo=7, flags=1, kernel=0)
    for index in range(blocks):
        one, two = layer(random, channels, channels), layer(random, channels, channels)
        layers += [one, two]
        fields = {"kernel": 1 + index, "input_zp": 7}
        build.conv(trunk, middle, one.weights, one.bias, one.mult, out_zp=5, clamp_lo=5, flags=1, **fields)
        fields = {"kernel": 1 + index, "input_zp": 5, "out_zp": 119, **ADD}
        build.conv(middle, trunk, two.weights, two.bias, two.mult, residual=trunk, **fields)
    tail = layer(random, channels, 48)
    layers.append(tail)
    start = -(-height * width * 3 // 128) * 128
    result = region(Space.DDR, start, (2 * height, 2 * width, 3), layout=2, block=4)
    anchor = region(Space.DDR, 0, size, layout=3, block=2)
    fields = {"kernel": blocks + 1, "flags": 1, "input_zp": 11, "out_zp": 128, "residual": anchor, **ANCHOR}
    build.conv(trunk, result, tail.weights, tail.bias, tail.mult, **fields)
    outputs = [("y", start, (2 * height, 2 * width, 3))]
    file = build.program(size, outputs, start + 12 * height * width)
    return Net(file, tuple(layers), size)
