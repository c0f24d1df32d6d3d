"""Layout of one COMMAND and one REGION in the stream: NumPy structures, little endian, fixed size.

The meaning of each field is prose in ``docs/reference/program.md``. Invariants: a command is
``COMMAND.itemsize`` (192) bytes, reserved bytes are zero, and a field never moves once a format version has
shipped."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt


class Op(IntEnum):
    """What a command does."""

    END = 0
    DMA = 1
    CONV = 2
    ADD = 3
    SHUFFLE = 4
    TABLE = 5
    POOL = 6
    MUL = 7
    RESIZE = 8
    HOST = 9


class Space(IntEnum):
    """Where a region lives. CONST and QUANT are offsets into the program's own sections (read only)."""

    NONE = 0
    SRAM = 1
    DDR = 2
    CONST = 3
    QUANT = 4


class PoolMode(IntEnum):
    """What a POOL command computes over its window."""

    MAXIMUM = 0
    AVERAGE = 1  # of the pixels inside the image
    AVERAGE_PADDED = 2  # padding counts as zero


class Layout(IntEnum):
    """How the logical H x W x C tensor lies in the stored rows x cols x channels image."""

    NHWC = 0
    S2D = 1  # read: logical is SpaceToDepth(block) of the stored image, ONNX channel order
    D2S = 2  # write: stored is DepthToSpace(block, CRD) of the logical tensor
    NEAREST = 3  # read: logical is the stored image repeated block x block


FLAG_LAUNCH = 1  # first command of a kernel in the frame
FLAG_DISPATCH = 2  # first command of each later stripe that re-enters the kernel
FLAG_PER_CHANNEL = 4  # TABLE: one table for each channel
FLAG_GLOBAL = 8  # POOL: one window, the whole map
FLAG_RESIDUAL_FIRST = 16  # CONV: the residual is the first operand of the addition (format 3)
FLAG_HOST = 32  # ADD, SHUFFLE, TABLE, POOL, MUL, RESIZE: the host processor runs it, an old driver lacks it

REGION = np.dtype(
    {
        "names": [
            "space",
            "layout",
            "block",
            "offset",
            "rows",
            "cols",
            "channels",
            "row_stride",
            "pixel_stride",
            "ring_rows",
            "ring_first",
        ],
        "formats": ["u1", "u1", "u1", "<u4", "<u4", "<u4", "<u4", "<u4", "<u4", "<u2", "<u2"],
        "offsets": [0, 1, 2, 4, 8, 12, 16, 20, 24, 28, 30],
        "itemsize": 32,
    }
)

_COMMAND_FIELDS: list[tuple[str, object]] = [
    ("op", "u1"),
    ("flags", "u1"),
    ("kernel", "<u2"),
    ("event", "<u4"),
    ("wait", "<u4"),
    ("src", REGION),
    ("residual", REGION),
    ("dst", REGION),
    ("kh", "u1"),
    ("kw", "u1"),
    ("sh", "u1"),
    ("sw", "u1"),
    ("dh", "u1"),
    ("dw", "u1"),
    ("pt", "u1"),
    ("pb", "u1"),
    ("pl", "u1"),
    ("pr", "u1"),
    ("groups", "<u2"),
    ("weights_offset", "<u4"),
    ("bias_offset", "<u4"),
    ("quant_offset", "<u4"),
    ("weight_zp_offset", "<u4"),
    ("input_zp", "u1"),
    ("out_zp", "u1"),
    ("clamp_lo", "u1"),
    ("clamp_hi", "u1"),
    ("a_scale", "<f4"),
    ("b_scale", "<f4"),
    ("c_scale", "<f4"),
    ("a_zp", "u1"),
    ("b_zp", "u1"),
    ("c_zp", "u1"),
    ("add_lo", "u1"),
    ("add_hi", "u1"),
    ("mode", "u1"),
    ("weights_row", "<u4"),
    ("reserved", "u1", (30,)),  # type: ignore[list-item]  # numpy's field tuples may carry a shape
]

COMMAND = np.dtype(_COMMAND_FIELDS)


def canonical_bytes(stream: npt.NDArray[np.void]) -> bytes:
    """Bytes of a COMMAND array with the gaps between fields zeroed, which NumPy leaves undefined when it
    copies.
    """
    raw = np.frombuffer(stream.tobytes(), np.uint8).reshape(len(stream), COMMAND.itemsize)
    return bytes((raw * _used(COMMAND)).tobytes())


def _used(dtype: np.dtype[np.void]) -> npt.NDArray[np.uint8]:
    used = np.zeros(dtype.itemsize, np.uint8)
    for name in dtype.names or ():
        field, offset = dtype.fields[name][:2]  # type: ignore[index]  # a structured type has fields
        used[offset : offset + field.itemsize] = _used(field) if field.names else 1
    return used
