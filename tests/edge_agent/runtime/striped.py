"""A depth-first program of the residual net, assembled by hand: every kernel enters stripe by stripe.

The trunk is one ring that all blocks update in place; each block's middle map is a small ring. With `staged`,
the input arrives and the output leaves by DMA through rings of their own, two stripes deep. The constants are
those of `assembler.residual_net` of the same seed, so that the pixels must be too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from contracts.npu.program import FLAG_DISPATCH, FLAG_LAUNCH, Op, Space
from tests.edge_agent.runtime.assembler import ADD, ANCHOR, Assembler, Layer, Net, layer, region

Shape = tuple[int, int, int]
ANCHOR_BLOCK, TAIL_BLOCK = 2, 4


@dataclass(frozen=True)
class Stripe:
    """Rows `first .. first + rows - 1` of one stage's result."""

    stage: int
    first: int
    rows: int


def schedule(stages: int, height: int, rows: int) -> Iterator[Stripe]:
    """Yield stripes so that each stage follows the one before as closely as a 3x3 kernel allows."""
    done = [0] * stages
    while done[-1] < height:
        for stage in range(stages):
            before = done[stage - 1] if stage else height
            ready = before if before == height else before - 1
            count = min(rows, ready - done[stage])
            if count > 0:
                yield Stripe(stage, done[stage], count)
                done[stage] += count


def ring_rows(stripes: list[Stripe], writer: int, last_reader: int) -> int:
    """Return the rows that a ring between two stages needs (the reader looks one row back)."""
    written = read = longest = 0
    for stripe in stripes:
        if stripe.stage == writer:
            written += stripe.rows
            longest = max(longest, written - max(read - 1, 0))
        if stripe.stage == last_reader:
            read += stripe.rows
    return longest


@dataclass
class _Ring:
    """A map of `shape` of which the SRAM holds `rows` rows."""

    offset: int
    shape: Shape
    rows: int

    def run(self, first: int, count: int, **layout: int) -> Any:
        shape = (count, *self.shape[1:])
        ring = {"ring_rows": self.rows, "ring_first": first % self.rows}
        return region(Space.SRAM, self.offset, shape, **layout, **ring)


@dataclass
class _Map:
    """A whole map in DDR, read and written by stripes."""

    offset: int
    shape: Shape

    def run(self, first: int, count: int, **layout: int) -> Any:
        ring = {"ring_rows": self.shape[0], "ring_first": first}
        return region(Space.DDR, self.offset, (count, *self.shape[1:]), **layout, **ring)


@dataclass
class _Building:
    """What the stripes of all stages share."""

    build: Assembler
    height: int
    constants: list[dict[str, int]]
    layers: list[Layer]
    entered: set[int] = field(default_factory=set)

    def conv(self, stripe: Stripe, source: Any, target: Any, kernel: int, **fields: Any) -> int:
        """Append the convolution of a stripe; `source` makes its region from (first, rows)."""
        top, bottom = max(stripe.first - 1, 0), min(stripe.first + stripe.rows + 1, self.height)
        pads = {"pt": int(stripe.first == 0), "pb": int(stripe.first + stripe.rows == self.height)}
        item = self.layers[stripe.stage]
        command = self.build.conv(
            source(top, bottom - top), target, item.weights, item.bias, item.mult,
            constants=self.constants[stripe.stage], kernel=kernel, flags=self._flags(stripe, kernel), **pads, **fields,
        )  # fmt: skip
        return int(command["event"])

    def _flags(self, stripe: Stripe, kernel: int) -> int:
        """A kernel is entered by its first convolution of each stripe; a block's second one is chained."""
        if stripe.stage and stripe.stage < len(self.layers) - 1 and stripe.stage % 2 == 0:
            return 0
        first = kernel not in self.entered
        self.entered.add(kernel)
        return FLAG_LAUNCH if first else FLAG_DISPATCH


def striped_net(
    height: int = 24,
    width: int = 16,
    channels: int = 8,
    blocks: int = 2,
    seed: int = 0,
    target: str = "npu-4t",
    rows: int = 2,
    staged: bool = False,
    zero_points: bool = True,
    missing_trunk_rows: int = 0,
) -> Net:
    """Return the net as a depth-first program of stripes of `rows` rows of the trunk.

    `missing_trunk_rows`: how many rows the trunk's ring is too short, for tests that must see it.
    """
    random = np.random.default_rng(seed)
    layers = [layer(random, 12, channels)]
    layers += [layer(random, channels, channels) for _ in range(2 * blocks)]
    layers.append(layer(random, channels, 48))
    map_height, map_width = height // 2, width // 2
    stripes = list(schedule(len(layers), map_height, rows))
    build = Assembler(target, names=["head", *(f"block{i}" for i in range(blocks)), "tail", "prologue"])
    work = _Building(build, map_height, [build.load_layer(item) for item in layers], layers)
    trunk = _ring(build, stripes, (map_height, map_width, channels), 0, len(layers) - 1, missing_trunk_rows)
    middles = [_ring(build, stripes, (map_height, map_width, channels), 1 + 2 * i, 2 + 2 * i) for i in range(blocks)]
    start = -(-height * width * 3 // 128) * 128
    frame, result = _Map(0, (height, width, 3)), _Map(start, (2 * height, 2 * width, 3))
    source = _Staging(build, frame, result, stripes, rows) if staged else _Direct(frame, result)
    zp = {"in": 7, "mid": 5} if zero_points else {"in": 0, "mid": 0}
    for stripe in stripes:
        _emit(work, stripe, trunk, middles, source, zp)
    outputs = [("y", start, result.shape)]
    file = build.program((height, width, 3), outputs, start + 12 * height * width)
    return Net(file, tuple(layers), (height, width, 3))


def _ring(build: Assembler, stripes: list[Stripe], shape: Shape, writer: int, reader: int, missing: int = 0) -> _Ring:
    rows = ring_rows(stripes, writer, reader) - missing
    return _Ring(build.room(rows * shape[1] * shape[2]), shape, rows)


def _emit(
    work: _Building, stripe: Stripe, trunk: _Ring, middles: list[_Ring], io: _Direct | _Staging, zp: dict[str, int]
) -> None:
    last = len(work.layers) - 1
    here = trunk.run(stripe.first, stripe.rows)
    if stripe.stage == 0:
        wait = io.fetch(stripe)
        work.conv(stripe, io.frame, here, 0, out_zp=zp["in"], clamp_lo=zp["in"], wait=wait)
    elif stripe.stage == last:
        to, wait = io.target(stripe)
        fields = {"input_zp": 11, "out_zp": 128, "residual": io.anchor(stripe), "wait": wait, **ANCHOR}
        io.store(stripe, work.conv(stripe, trunk.run, to, last // 2 + 1, **fields))
    elif stripe.stage % 2:
        block = stripe.stage // 2
        middle = middles[block].run(stripe.first, stripe.rows)
        fields = {"input_zp": zp["in"], "out_zp": zp["mid"], "clamp_lo": zp["mid"]}
        work.conv(stripe, trunk.run, middle, 1 + block, **fields)
    else:
        block = stripe.stage // 2 - 1
        fields = {"input_zp": zp["mid"], "out_zp": 119, "residual": here, **ADD}
        work.conv(stripe, middles[block].run, here, 1 + block, **fields)


@dataclass
class _Direct:
    """Input and output are read and written in DDR by the kernels themselves."""

    whole: _Map
    result: _Map

    def fetch(self, stripe: Stripe) -> int:
        return 0

    def frame(self, first: int, count: int) -> Any:
        return self.whole.run(2 * first, 2 * count, layout=1, block=2)

    def anchor(self, stripe: Stripe) -> Any:
        return self.whole.run(2 * stripe.first, 2 * stripe.rows, layout=3, block=ANCHOR_BLOCK)

    def target(self, stripe: Stripe) -> tuple[Any, int]:
        return self.result.run(4 * stripe.first, 4 * stripe.rows, layout=2, block=TAIL_BLOCK), 0

    def store(self, stripe: Stripe, event: int) -> None:
        return


class _Staging:
    """Input arrives by DMA into a ring and results leave by DMA from a ring."""

    def __init__(self, build: Assembler, whole: _Map, result: _Map, stripes: list[Stripe], rows: int) -> None:
        self._build, self._whole, self._result = build, whole, result
        width = whole.shape[1]
        held = _input_rows(stripes, whole.shape[0])
        self._in = _Ring(build.room(held * width * 3), whole.shape, held)
        depth = 2 * TAIL_BLOCK * rows
        self._out = _Ring(build.room(depth * 2 * width * 3), result.shape, depth)
        self._fetched = self._released = 0
        self._stored: list[int] = []

    def fetch(self, stripe: Stripe) -> int:
        first, self._fetched = self._fetched, _needed(stripe, self._whole.shape[0])
        if self._fetched == first:
            return 0
        run = (first, self._fetched - first)
        command = self._build.command(
            Op.DMA, src=self._whole.run(*run), dst=self._in.run(*run), wait=self._released, kernel=0
        )
        return int(command["event"])

    def frame(self, first: int, count: int) -> Any:
        return self._in.run(2 * first, 2 * count, layout=1, block=2)

    def anchor(self, stripe: Stripe) -> Any:
        return self._in.run(2 * stripe.first, 2 * stripe.rows, layout=3, block=ANCHOR_BLOCK)

    def target(self, stripe: Stripe) -> tuple[Any, int]:
        wait = self._stored[-2] if len(self._stored) > 1 else 0
        run = (TAIL_BLOCK * stripe.first, TAIL_BLOCK * stripe.rows)
        return self._out.run(*run, layout=2, block=TAIL_BLOCK), wait

    def store(self, stripe: Stripe, event: int) -> None:
        self._released = event
        run = (TAIL_BLOCK * stripe.first, TAIL_BLOCK * stripe.rows)
        kernel = len(self._build.names) - 2
        source, target = self._out.run(*run), self._result.run(*run)
        self._stored.append(
            int(self._build.command(Op.DMA, src=source, dst=target, wait=event, kernel=kernel)["event"])
        )


def _needed(stripe: Stripe, height: int) -> int:
    """Return the input rows that the head has seen behind `stripe`."""
    return min(2 * (stripe.first + stripe.rows + 1), height)


def _input_rows(stripes: list[Stripe], height: int) -> int:
    """Return the rows of the input's ring: from the first that the tail's anchor still reads."""
    longest = used = 0
    for stripe in stripes:
        if stripe.stage == 0:
            longest = max(longest, _needed(stripe, height) - used)
        if stripe.stage == stripes[-1].stage:
            used = 2 * (stripe.first + stripe.rows)
    return longest
