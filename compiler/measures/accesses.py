"""Which storage each command touches, as plain integers read column by column (a frame has thousands of commands).

The storage of a region is all rows of its ring, or of the region itself where it has no ring.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.timing import Commands
from contracts.npu import Op, Space

_FIELDS = ("space", "offset", "rows", "cols", "channels", "row_stride", "pixel_stride", "ring_rows")
_SOFTMAX, _DEFORMABLE = 0, 2  # host functions that read constants, docs/reference/arithmetic.md
_MEMORY = (Space.SRAM, Space.DDR)


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes ``begin`` .. ``end`` of a memory; ``rows`` and ``ring_rows`` as in the region, ``sliced`` when it skips
    channels or columns of the map that it is a window of.
    """

    space: Space
    begin: int
    end: int
    rows: int = 0
    ring_rows: int = 0
    sliced: bool = False


@dataclass(frozen=True, slots=True)
class Touch:
    """What one command reads and writes, in SRAM and DDR. ``in_place``: the result goes where the residual was."""

    command: int
    kernel: int
    operation: Op
    reads: tuple[Storage, ...]
    write: Storage | None
    in_place: bool
    outside: Space
    """CONST or QUANT when the command brings constants, else NONE."""


def touches(commands: Commands) -> Iterator[Touch]:
    """One item for each command up to END."""
    plain = {key: {field: commands[key][field].tolist() for field in _FIELDS} for key in ("src", "residual", "dst")}
    columns = {key: commands[key].tolist() for key in ("op", "kernel", "mode")}
    operands = {key: commands[f"{key}_offset"].tolist() for key in ("weights", "bias", "quant", "weight_zp")}
    for index, code in enumerate(columns["op"]):
        if code == Op.END:
            return
        src, residual, dst = (_storage(plain[key], index) for key in ("src", "residual", "dst"))
        reads = tuple(storage for storage in (src, residual) if storage is not None)
        if code == Op.CONV or (code == Op.HOST and columns["mode"][index] == _DEFORMABLE):
            reads += tuple(_operands({key: column[index] for key, column in operands.items()}))
        elif code == Op.TABLE or (code == Op.HOST and columns["mode"][index] == _SOFTMAX):
            offset = operands["weights"][index]
            reads += (Storage(Space.SRAM, offset, offset + 1),)
        space = plain["src"]["space"][index]
        yield Touch(
            command=index,
            kernel=columns["kernel"][index],
            operation=Op(code),
            reads=reads,
            write=dst,
            in_place=residual is not None and residual == dst,
            outside=Space(space) if space in (Space.CONST, Space.QUANT) else Space.NONE,
        )


def _storage(region: dict[str, list[int]], index: int) -> Storage | None:
    if region["space"][index] not in _MEMORY:
        return None
    rows, ring_rows = region["rows"][index], region["ring_rows"][index]
    channels, pixel = region["channels"][index], region["pixel_stride"][index]
    cols, stride = region["cols"][index], region["row_stride"][index]
    size = ((ring_rows or rows) - 1) * stride + (cols - 1) * pixel + channels
    begin = region["offset"][index]
    sliced = pixel > channels or (stride > cols * pixel and rows > 1)
    return Storage(Space(region["space"][index]), begin, begin + size, rows, ring_rows, sliced)


def _operands(offsets: dict[str, int]) -> Iterator[Storage]:
    """First bytes of weights, biases and multipliers: enough to find the storage that holds them."""
    for key, offset in offsets.items():
        if offset or key != "weight_zp":
            yield Storage(Space.SRAM, offset, offset + 1)
