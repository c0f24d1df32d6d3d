"""A reference net as a TFLite file, which is what Vela reads: the same integers as in the ONNX forms, as int8.

Written straight as a FlatBuffer, so that no training framework is needed. Activations move from u8 to s8 by 128; the
tail's output channels are put in TFLite's DepthToSpace order (DCR), so that the file computes the same picture.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from benchmarks.peers.vela.flat import OFFSET, FlatWriter, Slot
from benchmarks.reference_nets import QuantizedNet
from benchmarks.reference_nets.quantized import Activation, Layer

_INT32, _INT8 = 2, 9  # TensorType
_RELU = 1  # ActivationFunctionType
_SHIFT = 128
_SCHEMA_VERSION = 3


@dataclass(frozen=True)
class Kind:
    """An operator of the schema: code, version, the type number of its options and their slot count."""

    code: int
    version: int
    options: int
    slots: int


ADD = Kind(0, 2, 11, 2)
CONV = Kind(3, 3, 1, 7)
DEPTH_TO_SPACE = Kind(5, 2, 94, 1)
SPACE_TO_DEPTH = Kind(26, 2, 19, 1)
_KINDS = (ADD, CONV, DEPTH_TO_SPACE, SPACE_TO_DEPTH)


@dataclass
class _Subgraph:
    """What has been written so far; tensors are known by their index."""

    flat: FlatWriter
    tensors: list[int] = field(default_factory=list)
    buffers: list[int] = field(default_factory=list)
    operators: list[int] = field(default_factory=list)

    def activation(self, name: str, shape: tuple[int, int, int], quantisation: Activation) -> int:
        scale = np.array([quantisation.scale])
        return self._tensor(name, (1, *shape), _INT8, scale, quantisation.zero_point - _SHIFT, 0)

    def constant(self, name: str, values: npt.NDArray[np.generic], scale: npt.NDArray[np.generic]) -> int:
        self.buffers.append(self.flat.table(3, [(0, OFFSET, self.flat.data(values))]))
        kind = _INT8 if values.dtype == np.int8 else _INT32
        return self._tensor(name, values.shape, kind, scale, 0, len(self.buffers))

    def _tensor(
        self, name: str, shape: tuple[int, ...], kind: int, scale: npt.NDArray[np.generic], zero: int, buffer: int
    ) -> int:
        flat = self.flat
        scales = flat.numbers(scale, "float32")
        zeros = flat.numbers([zero] * len(scale), "int64")
        quantisation = flat.table(7, [(2, OFFSET, scales), (3, OFFSET, zeros)])
        extents, text = flat.numbers(shape, "int32"), flat.text(name)
        slots: list[Slot] = [(0, OFFSET, extents), (1, "int8", kind), (2, "uint32", buffer)]
        self.tensors.append(flat.table(10, [*slots, (3, OFFSET, text), (4, OFFSET, quantisation)]))
        return len(self.tensors) - 1

    def operator(self, kind: Kind, inputs: list[int], output: int, options: list[Slot]) -> int:
        flat = self.flat
        written = flat.table(kind.slots, options)
        reads, writes = flat.numbers(inputs, "int32"), flat.numbers([output], "int32")
        slots: list[Slot] = [(0, "uint32", _KINDS.index(kind)), (1, OFFSET, reads), (2, OFFSET, writes)]
        self.operators.append(flat.table(9, [*slots, (3, "uint8", kind.options), (4, OFFSET, written)]))
        return output


def tflite_model(net: QuantizedNet) -> bytes:
    """TFLite bytes for frames of the net's size: int8 [1, height, width, 3] in, int8 [1, 2 height, 2 width, 3] out."""
    shape, graph = net.shape, _Subgraph(FlatWriter())
    rows, cols = shape.height // shape.space_to_depth, shape.width // shape.space_to_depth
    frame = graph.activation("x", (shape.height, shape.width, 3), net.image)
    packed = graph.activation("s2d", (rows, cols, net.head.weights.shape[1]), net.image)
    graph.operator(SPACE_TO_DEPTH, [frame], packed, [(0, "int32", shape.space_to_depth)])
    trunk = _conv(graph, packed, net.head, rows, cols)
    for index, block in enumerate(net.blocks):
        inner = _conv(graph, _conv(graph, trunk, block.first, rows, cols), block.second, rows, cols)
        total = graph.activation(f"block{index}_add", (rows, cols, shape.channels), block.result)
        trunk = graph.operator(ADD, [trunk, inner], total, [])
    tail = _conv(graph, trunk, _in_dcr_order(net.tail, shape.shuffle), rows, cols)
    final = graph.activation("y", (rows * shape.shuffle, cols * shape.shuffle, 3), net.tail.result)
    graph.operator(DEPTH_TO_SPACE, [tail], final, [(0, "int32", shape.shuffle)])
    return _model(graph, frame, final, shape.name)


def _conv(graph: _Subgraph, source: int, layer: Layer, rows: int, cols: int) -> int:
    scale = np.float32(layer.source.scale) * layer.weight_scale
    weights = np.ascontiguousarray(layer.weights.transpose(0, 2, 3, 1))
    operands = [
        source,
        graph.constant(f"{layer.name}_weight", weights, layer.weight_scale),
        graph.constant(f"{layer.name}_bias", layer.bias, scale),
    ]
    result = graph.activation(layer.name, (rows, cols, len(weights)), layer.result)
    # padding SAME, strides and dilations 1
    options: list[Slot] = [(slot, "int32", 1) for slot in (1, 2, 4, 5)]
    return graph.operator(CONV, operands, result, [*options, (3, "int8", _RELU if layer.relu else 0)])


def _in_dcr_order(layer: Layer, block: int) -> Layer:
    """Channels from (colour, dy, dx) to (dy, dx, colour)."""
    order = np.arange(len(layer.bias)).reshape(3, block, block).transpose(1, 2, 0).reshape(-1)
    moved = {name: getattr(layer, name)[order] for name in ("weights", "weight_scale", "bias")}
    return replace(layer, **moved)


def _model(graph: _Subgraph, frame: int, final: int, name: str) -> bytes:
    flat = graph.flat
    codes = flat.tables([_code(flat, kind) for kind in _KINDS])
    text = flat.text(name)
    parts = [flat.tables(graph.tensors), flat.numbers([frame], "int32"), flat.numbers([final], "int32")]
    slots: list[Slot] = [(index, OFFSET, part) for index, part in enumerate([*parts, flat.tables(graph.operators)])]
    subgraphs = flat.tables([flat.table(5, [*slots, (4, OFFSET, text)])])
    buffers = flat.tables([flat.table(3, []), *graph.buffers])
    root: list[Slot] = [(0, "uint32", _SCHEMA_VERSION), (1, OFFSET, codes), (2, OFFSET, subgraphs)]
    return flat.finish(flat.table(8, [*root, (3, OFFSET, text), (4, OFFSET, buffers)]), b"TFL3")


def _code(flat: FlatWriter, kind: Kind) -> int:
    return flat.table(4, [(0, "int8", kind.code), (2, "int32", kind.version), (3, "int32", kind.code)])
