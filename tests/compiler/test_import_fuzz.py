"""Broken models of every kind: a program or one CompileError, in bounded time and memory, never anything else."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from compiler.driver import compile_program
from compiler.errors import CompileError, InternalError
from compiler.importer.operators import CONVERTERS
from compiler.importer.qoperator import FORMS
from tests.compiler.host_nets import HOST
from tests.compiler.qdq_cases import EXACT, NEAR, TIES
from tests.compiler.qdq_nets import SHAPE
from tests.compiler.test_import_qoperator import EXACT as INTEGER
from tests.support.models import recurrent_qdq, vsr_qdq

SEEDS: list[Callable[[], bytes]] = [
    lambda: vsr_qdq(4, 4, 1),
    EXACT["reshaped CRD"],
    EXACT["slice, steps"],
    EXACT["max pool"],
    EXACT["split rows"],
    NEAR["squeeze and excite"],
    NEAR["concat, other scales"],
    NEAR["classifier over the map"],
    NEAR["attention"],
    NEAR["dynamic reshape"],
    NEAR["pad, conv"],
    TIES["linear, other scale"],
    HOST["deformable alignment"],
    HOST["dynamic upsampling"],
    lambda: INTEGER["concat"](False),
    lambda: INTEGER["matrix product"](True),
    lambda: INTEGER["shuffle"](False),
    recurrent_qdq,
]
OPERATORS = sorted(
    {*(name for name in CONVERTERS if "." not in name), *FORMS, "QuantizeLinear", "DequantizeLinear", "Shape"}
)
NUMBERS = (-(2**63), -1000, -2, -1, 0, 1, 2, 3, 5, 7, 16, 255, 65_536, 2**31, 10**9, 2**63 - 1)
SECONDS = 5.0
MEBIBYTES = 400


def compile_or_error(model: bytes) -> None:
    """Bounded time; CompileError is fine, one that says "report this model" is a bug of ours."""
    start = time.process_time()
    with contextlib.suppress(CompileError):
        try:
            compile_program(model, "npu-4t", [SHAPE])
        except InternalError as error:
            raise AssertionError(str(error)) from error
    assert time.process_time() - start < SECONDS


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_flipped_bytes(data: st.DataObject) -> None:
    model = bytearray(data.draw(st.sampled_from(SEEDS))())
    for _ in range(data.draw(st.integers(1, 5))):
        model[data.draw(st.integers(0, len(model) - 1))] = data.draw(st.integers(0, 255))
    compile_or_error(bytes(model))


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_changed_graphs(data: st.DataObject) -> None:
    proto = onnx.load_model_from_string(data.draw(st.sampled_from(SEEDS))())
    for _ in range(data.draw(st.integers(1, 3))):
        data.draw(st.sampled_from(CHANGES))(proto, data)
    compile_or_error(proto.SerializeToString())


def _node(proto: onnx.ModelProto, data: st.DataObject) -> onnx.NodeProto:
    return proto.graph.node[data.draw(st.integers(0, len(proto.graph.node) - 1))]


def _drop_node(proto: onnx.ModelProto, data: st.DataObject) -> None:
    if len(proto.graph.node) > 1:
        del proto.graph.node[data.draw(st.integers(0, len(proto.graph.node) - 1))]


def _repeat_node(proto: onnx.ModelProto, data: st.DataObject) -> None:
    node = _node(proto, data)
    proto.graph.node.append(node)
    if node.output:
        proto.graph.node[-1].output[0] = f"{node.output[0]}_again"


def _rewire(proto: onnx.ModelProto, data: st.DataObject) -> None:
    node = _node(proto, data)
    names = [name for other in proto.graph.node for name in (*other.input, *other.output)]
    if node.input:
        node.input[data.draw(st.integers(0, len(node.input) - 1))] = data.draw(st.sampled_from([*names, ""]))


def _drop_input(proto: onnx.ModelProto, data: st.DataObject) -> None:
    node = _node(proto, data)
    if node.input:
        del node.input[data.draw(st.integers(0, len(node.input) - 1))]


def _drop_output(proto: onnx.ModelProto, data: st.DataObject) -> None:
    node = _node(proto, data)
    if node.output:
        del node.output[-1]


def _other_operator(proto: onnx.ModelProto, data: st.DataObject) -> None:
    _node(proto, data).op_type = data.draw(st.sampled_from(OPERATORS))


def _other_attribute(proto: onnx.ModelProto, data: st.DataObject) -> None:
    node = _node(proto, data)
    number = st.sampled_from(NUMBERS)
    value: object = data.draw(
        st.one_of(
            number,
            st.lists(number, min_size=1, max_size=5),
            st.sampled_from(["", "CRD", "linear", "SAME_UPPER"]),
            st.floats(width=32),
        )
    )
    known = [attribute.name for attribute in node.attribute]
    name = data.draw(st.sampled_from([*known, "axis", "pads", "strides", "blocksize", "group", "kernel_shape", "perm"]))
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.append(helper.make_attribute(name, value))


def _other_constant(proto: onnx.ModelProto, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(proto.graph.initializer) - 1))
    tensor = proto.graph.initializer[index]
    kind = data.draw(
        st.sampled_from([np.float32, np.float16, np.int8, np.uint8, np.int32, np.int64, np.bool_, np.float64])
    )
    shape = data.draw(st.sampled_from([(), (0,), (1,), (2,), (4,), (6,), (2, 3), (4, 4, 1, 1), (1, 0, 2)]))
    fill = data.draw(st.sampled_from([0, 1, -1, 3, 100, float("nan"), float("inf"), 1e-40, 1e38]))
    with np.errstate(all="ignore"):
        array = np.full(shape, fill, np.float64).astype(kind)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _other_extents(proto: onnx.ModelProto, data: st.DataObject) -> None:
    tensor = proto.graph.initializer[data.draw(st.integers(0, len(proto.graph.initializer) - 1))]
    del tensor.dims[:]
    tensor.dims.extend(data.draw(st.lists(st.sampled_from(NUMBERS), max_size=4)))


def _other_input(proto: onnx.ModelProto, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([1, 2, 3, 6, 7, 0]))
    extents = data.draw(st.lists(st.sampled_from([None, 0, 1, 2, 4, 8, 12, 10**9, -1]), max_size=5))
    name = proto.graph.input[0].name
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info(name, kind, extents))


CHANGES = [
    _drop_node,
    _repeat_node,
    _rewire,
    _drop_input,
    _drop_output,
    _other_operator,
    _other_attribute,
    _other_constant,
    _other_extents,
    _other_input,
]


@pytest.mark.parametrize("extent", [10**9, 2**31, 2**62])
@pytest.mark.parametrize("operator", ["Resize", "Reshape", "Slice", "Pad", "Split"])
def test_hostile_sizes_cost_no_memory(operator: str, extent: int) -> None:
    cases = {
        "Resize": "nearest, align corners",
        "Reshape": "reshaped CRD",
        "Slice": "slice, window",
        "Split": "split cols",
    }
    model = NEAR["pad, conv"]() if operator == "Pad" else EXACT[cases[operator]]()
    proto = onnx.load_model_from_string(model)
    for tensor in proto.graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT64:
            array = numpy_helper.to_array(tensor)
            tensor.CopyFrom(numpy_helper.from_array(np.full(array.shape, extent, np.int64), tensor.name))
    tracemalloc.start()
    try:
        compile_or_error(proto.SerializeToString())
        assert tracemalloc.get_traced_memory()[1] < MEBIBYTES * 2**20
    finally:
        tracemalloc.stop()
