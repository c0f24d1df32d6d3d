"""One command as plain integers, and the rules of form: reserved bytes, unknown flags, fields without a use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from compiler.verifier.regions import Region
from contracts.npu import COMMAND, REGION, Op
from contracts.npu.program import (
    FLAG_DISPATCH,
    FLAG_GLOBAL,
    FLAG_HOST,
    FLAG_LAUNCH,
    FLAG_PER_CHANNEL,
    FLAG_RESIDUAL_FIRST,
)


class Command(NamedTuple):
    """The fields of the structure in the stream, in its order, reserved bytes left out."""

    op: int
    flags: int
    kernel: int
    event: int
    wait: int
    src: Region
    residual: Region
    dst: Region
    kh: int
    kw: int
    sh: int
    sw: int
    dh: int
    dw: int
    pt: int
    pb: int
    pl: int
    pr: int
    groups: int
    weights_offset: int
    bias_offset: int
    quant_offset: int
    weight_zp_offset: int
    input_zp: int
    out_zp: int
    clamp_lo: int
    clamp_hi: int
    a_scale: float
    b_scale: float
    c_scale: float
    a_zp: int
    b_zp: int
    c_zp: int
    add_lo: int
    add_hi: int
    mode: int
    weights_row: int

    @property
    def launch(self) -> bool:
        """First command of its kernel in the frame."""
        return bool(self.flags & FLAG_LAUNCH)

    @property
    def dispatch(self) -> bool:
        """First command of a later stripe of its kernel."""
        return bool(self.flags & FLAG_DISPATCH)

    @property
    def residual_first(self) -> bool:
        """The residual is the first operand of the addition, the convolution's result the second."""
        return bool(self.flags & FLAG_RESIDUAL_FIRST)


_KERNEL = ("kh", "kw", "sh", "sw", "dh", "dw", "pt", "pb", "pl", "pr")
_REQUANTIZE = ("input_zp", "out_zp", "clamp_lo", "clamp_hi")
_ADDITION = ("a_scale", "b_scale", "c_scale", "a_zp", "b_zp", "c_zp", "add_lo", "add_hi")
_CONSTANTS = ("weights_offset", "weights_row", "bias_offset", "quant_offset", "weight_zp_offset")
_CONV = (*_KERNEL, *_REQUANTIZE, *_CONSTANTS, "groups")
_NUMBERS = tuple(name for name in Command._fields[8:])
_USED: dict[int, tuple[str, ...]] = {
    Op.END: (),
    Op.DMA: (),
    Op.CONV: _CONV,
    Op.ADD: ("residual", *_ADDITION),
    Op.SHUFFLE: (),
    Op.TABLE: ("weights_offset", *_REQUANTIZE),
    Op.POOL: (*_KERNEL, "groups", "mode", *_REQUANTIZE, "a_scale", "a_zp", "c_scale", "c_zp"),
    Op.MUL: ("residual", *_ADDITION),
    Op.RESIZE: ("kh", "kw", "mode", *_REQUANTIZE),
    Op.HOST: ("residual", "mode", *_CONV, *_ADDITION[:6]),
}
_NOTHING = Region(*[0] * len(Region._fields))
_STRIPE = FLAG_LAUNCH | FLAG_DISPATCH
_FLAGS: dict[int, int] = {
    Op.END: 0,
    Op.DMA: 0,
    Op.ADD: _STRIPE | FLAG_HOST,
    Op.SHUFFLE: _STRIPE | FLAG_HOST,
    Op.TABLE: _STRIPE | FLAG_HOST | FLAG_PER_CHANNEL,
    Op.POOL: _STRIPE | FLAG_HOST | FLAG_GLOBAL,
    Op.MUL: _STRIPE | FLAG_HOST,
    Op.RESIZE: _STRIPE | FLAG_HOST,
}
_FIELDS = list(Command._fields)


def decode(stream: npt.NDArray[np.void]) -> list[Command]:
    """All commands, END included."""
    return [
        Command._make((*raw[:5], Region._make(raw[5]), Region._make(raw[6]), Region._make(raw[7]), *raw[8:]))
        for raw in stream[_FIELDS].tolist()
    ]


def reserved_set(stream: npt.NDArray[np.void]) -> Iterator[int]:
    """Indices of commands with a bit set outside of the fields."""
    raw = np.frombuffer(stream.tobytes(), np.uint8).reshape(len(stream), COMMAND.itemsize)
    yield from (int(index) for index in np.flatnonzero((raw & ~_used_bytes()).any(axis=1)))


def form_problem(command: Command) -> str | None:
    """The first field that is set without a meaning for the operation; None when there is none."""
    with_addition = command.op == Op.CONV and command.residual.space != 0
    known = _FLAGS.get(command.op, _STRIPE) | (FLAG_RESIDUAL_FIRST if with_addition else 0)
    if command.flags & ~known:
        return f"flags {command.flags} have no meaning here"
    if command.op not in _USED:
        return None
    used = _USED[command.op]
    if "residual" not in used and not with_addition and command.residual != _NOTHING:
        return "a residual without a space" if command.op == Op.CONV else "a residual that the operation does not read"
    for name in _UNUSED[command.op]:
        if getattr(command, name) and not (with_addition and name in _ADDITION):
            return f"{name} {getattr(command, name)} has no meaning here"
    return None


_UNUSED = {op: tuple(name for name in _NUMBERS if name not in used) for op, used in _USED.items()}


def _used_bytes() -> npt.NDArray[np.uint8]:
    used = np.zeros(COMMAND.itemsize, np.uint8)
    for name in Command._fields:
        field, offset = COMMAND.fields[name][:2]  # type: ignore[index]  # a structured type has fields
        if field != REGION:
            used[offset : offset + field.itemsize] = 255
            continue
        for inner in REGION.names or ():
            part, at = REGION.fields[inner][:2]  # type: ignore[index]  # so has a region
            used[offset + at : offset + at + part.itemsize] = 255
    return used
