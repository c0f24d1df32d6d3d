"""Which driver a stream needs (docs/reference/operators.md, "Driver versions").

An old driver does not know the later operations; a device refuses them at load rather than in the middle of a frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from contracts.npu.program import FLAG_HOST, FLAG_RESIDUAL_FIRST, Op, Space
from edge_agent.runtime.npu.commands import Stream

FIRST_DRIVER = "1.0.0"
_OLDEST: Mapping[Op, str] = {
    Op.TABLE: "1.1.0",
    Op.POOL: "1.1.0",
    Op.MUL: "1.1.0",
    Op.RESIZE: "1.1.0",
    Op.HOST: "1.2.0",
}
_SUBTRACTION = "1.1.0"
_RESIDUAL_FIRST = "1.3.0"


def lacking(stream: Stream, driver: str) -> list[str]:
    """Return what a driver of this version cannot run, each with the driver that can; empty when it runs all."""
    return [f"{name} needs driver {needed}" for name, needed in _needs(stream) if _parts(driver) < _parts(needed)]


def _needs(stream: Stream) -> Iterator[tuple[str, str]]:
    stream = stream[stream["flags"] & FLAG_HOST == 0]  # every driver hands over to the host processor
    known = {int(op): op for op in Op}
    for code in np.unique(stream["op"]):
        op = known.get(int(code))  # an unknown one is refused when it is decoded
        if op is not None:
            yield op.name, _OLDEST.get(op, FIRST_DRIVER)
    fused = (stream["op"] == Op.CONV) & (stream["residual"]["space"] != Space.NONE)
    adds = (stream["op"] == Op.ADD) | fused
    if ((stream["b_scale"] < 0) | (stream["a_scale"] < 0))[adds].any():
        yield "a subtraction", _SUBTRACTION
    if (stream["flags"][fused] & FLAG_RESIDUAL_FIRST).any():
        yield "a residual that comes first", _RESIDUAL_FIRST


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
