"""States: inputs behind the first one, each of which the net wrote itself in the frame before.

An input ``history`` is followed by the output ``history_next``. Its extents are numbers, or parts of the frame's own:
the dimension parameter ``height/8`` is an eighth of the frame's height, ``height`` the whole of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import onnx

from compiler.errors import UnsupportedModel
from compiler.importer.source import Extent, SourceState
from compiler.limits import LIMITS

FOLLOWED_BY = "_next"
_PART = re.compile(r"\s*[A-Za-z_]\w*\s*(?:/\s*([1-9]\d{0,3})\s*)?")


def read_states(inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[str]) -> tuple[SourceState, ...]:
    """The states of a model; raises UnsupportedModel."""
    if len(inputs) > LIMITS.states:
        raise UnsupportedModel("model", f"{len(inputs)} states", f"keep to {LIMITS.states}, join them by channels")
    return tuple(_state(entry, outputs) for entry in inputs)


def _state(entry: onnx.ValueInfoProto, outputs: Sequence[str]) -> SourceState:
    follows = entry.name + FOLLOWED_BY
    if follows not in outputs:
        reason = f"a second input, and no output {follows} that follows it"
        raise UnsupportedModel(entry.name, reason, "name what the next frame reads so, or export one input")
    kind = entry.type.tensor_type
    dims = kind.shape.dim
    if kind.elem_type != onnx.TensorProto.FLOAT or len(dims) != 4 or not 1 <= dims[1].dim_value <= LIMITS.channels:
        raise UnsupportedModel(entry.name, "a state is float [1, C, H, W] with C fixed", "export the state like this")
    return SourceState(entry.name, follows, dims[1].dim_value, *(_extent(entry.name, dim) for dim in dims[2:]))


def _extent(name: str, dim: onnx.TensorShapeProto.Dimension) -> Extent:
    if dim.HasField("dim_value") and 1 <= dim.dim_value <= LIMITS.tensor_extent:
        return Extent(dim.dim_value)
    found = _PART.fullmatch(dim.dim_param)
    if not dim.dim_param or found is None:
        reason = f"extent {dim.dim_param or dim.dim_value!r} is neither a number nor a part of the frame's"
        raise UnsupportedModel(name, reason, 'call the dimension for example "height/8"')
    return Extent(None, int(found[1] or 1))
