"""QDQ models of one or a few operators each, hand-written, for the importer's tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import helper, numpy_helper

from tests.support.models import QdqBuilder

Case = Callable[[], bytes]
SHAPE = (8, 12)


class Net(QdqBuilder):
    """A builder with the frame quantised: 4 channels, scale 0.02, zero point 120."""

    def __init__(self, seed: int = 0, channels: int = 4) -> None:
        super().__init__(seed)
        self.frame = self.quantize("x", 0.02, 120, channels)
        self.count = channels
        self.matrix_scale = np.ones(1, np.float32)

    def floats(self, name: str, values: object) -> str:
        return self.constant(name, np.asarray(values, np.float32))

    def whole(self, name: str, values: object) -> str:
        return self.constant(name, np.asarray(values, np.int64))

    def quantized(self, name: str, values: object, scale: float, zero: int) -> str:
        """A constant behind DequantizeLinear."""
        q = self.constant(f"{name}_q", np.asarray(values, np.uint8))
        s, z = self.floats(f"{name}_s", scale), self.constant(f"{name}_z", np.asarray(zero, np.uint8))
        return self.node("DequantizeLinear", [q, s, z], name)

    def matrix(self, name: str, inputs: int, outputs: int, transposed: bool) -> str:
        """Constant weights of a matrix product, one scale for each output."""
        random = np.random.default_rng(5)
        values = random.integers(-127, 128, (inputs, outputs), dtype=np.int8)
        self.matrix_scale = random.uniform(0.001, 0.004, outputs).astype(np.float32)
        parts = [
            self.constant(f"{name}_q", np.ascontiguousarray(values.T) if transposed else values),
            self.constant(f"{name}_s", self.matrix_scale),
            self.constant(f"{name}_z", np.zeros(outputs, np.int8)),
        ]
        return self.node("DequantizeLinear", parts, name, axis=0 if transposed else 1)

    def features(self, name: str, outputs: int, scale: float = 0.03, zero: int = 110, **options: object) -> str:
        """A quantised convolution of the frame."""
        return self.quantize(self.conv(self.frame, name, outputs, **options), scale, zero, outputs)  # type: ignore[arg-type]  # options of conv

    def done(self, tensor: str, scale: float = 0.03, zero: int = 100, channels: int = 4) -> bytes:
        self.quantize(tensor, scale, zero, channels, output="y")
        return self.finished()

    def finished(self) -> bytes:
        return self.model({"x": [1, self.count, "h", "w"]}, {"y": ["a", "b", "c", "d"]})


def unary(operator: str, scale: float = 0.011, zero: int = 31, **attributes: object) -> Case:
    def make() -> bytes:
        net = Net()
        return net.done(net.node(operator, [net.frame], "f", **attributes), scale, zero)

    return make


def prelu(shape: Sequence[int]) -> Case:
    def make() -> bytes:
        net = Net()
        slopes = net.floats("slopes", np.linspace(-0.4, 0.7, int(np.prod(shape))).reshape(shape))
        return net.done(net.node("PRelu", [net.frame, slopes], "f"))

    return make


def clip(low: float, high: float) -> Case:
    def make() -> bytes:
        net = Net()
        bounds = net.floats("low", low), net.floats("high", high)
        return net.done(net.node("Clip", [net.frame, *bounds], "f"), 0.02, 120)

    return make


def with_constant(operator: str, first: bool, value: object) -> Case:
    def make() -> bytes:
        net = Net()
        constant = net.floats("k", value)
        operands = [constant, net.frame] if first else [net.frame, constant]
        return net.done(net.node(operator, operands, "f"), 0.05, 77)

    return make


def with_quantized_constant(operator: str, first: bool, shape: Sequence[int]) -> Case:
    def make() -> bytes:
        net = Net()
        values = np.random.default_rng(1).integers(0, 256, shape)
        constant = net.quantized("k", values, 0.013, 99)
        operands = [constant, net.frame] if first else [net.frame, constant]
        return net.done(net.node(operator, operands, "f"), 0.05, 77)

    return make


def two(operator: str, scale: float = 0.06, zero: int = 90) -> Case:
    def make() -> bytes:
        net = Net()
        a, b = net.features("a", 4), net.features("b", 4, 0.021, 130)
        return net.done(net.node(operator, [a, b], "f"), scale, zero)

    return make


def gate(operator: str = "Mul") -> Case:
    """Squeeze and excite: a map times one number a channel."""

    def make() -> bytes:
        net = Net()
        a = net.features("a", 4)
        mean = net.quantize(net.node("GlobalAveragePool", [a], "mean"), 0.01, 100, 4)
        gated = net.quantize(net.node("Sigmoid", [mean], "gate"), 1 / 256, 0, 4)
        return net.done(net.node(operator, [a, gated], "f"), 0.03, 100)

    return make


def swish() -> bytes:
    net = Net()
    a = net.features("a", 4)
    b = net.quantize(net.node("Sigmoid", [a], "s"), 1 / 256, 0, 4)
    return net.done(net.node("Mul", [a, b], "f"))


def pool(operator: str, scale: float = 0.02, zero: int = 120, **attributes: object) -> Case:
    def make() -> bytes:
        net = Net()
        return net.done(net.node(operator, [net.frame], "f", **attributes), scale, zero)

    return make


def concat(axis: int, scales: Sequence[tuple[float, int]], result: tuple[float, int] = (0.03, 110)) -> Case:
    def make() -> bytes:
        net = Net()
        parts = [net.features(f"p{i}", 4, *pair) for i, pair in enumerate(scales)]
        joined = net.quantize(net.node("Concat", parts, "joined", axis=axis), *result, 4 * len(parts))
        net.channels[joined] = 4 * len(parts) if axis == 1 else 4
        return net.done(net.conv(joined, "last", 4))

    return make


def concat_with_the_input_and_itself() -> bytes:
    net = Net()
    a = net.features("a", 4)
    joined = net.quantize(net.node("Concat", [net.frame, a, a], "joined", axis=1), 0.03, 110, 12)
    return net.done(net.conv(joined, "last", 4))


def concat_of_a_concat() -> bytes:
    net = Net()
    a, b, c = (net.features(name, 4) for name in "abc")
    inner = net.quantize(net.node("Concat", [a, b], "inner", axis=1), 0.03, 110, 8)
    outer = net.quantize(net.node("Concat", [inner, c], "outer", axis=1), 0.03, 110, 12)
    return net.done(net.conv(outer, "last", 4))


def split(axis: int, sizes: Sequence[int] | None = None) -> Case:
    def make() -> bytes:
        net = Net()
        extra = [] if sizes is None else [net.whole("sizes", sizes)]
        attributes = {"num_outputs": 2} if sizes is None else {}
        inputs = [net.frame, *extra]
        net.nodes.append(helper.make_node("Split", inputs, ["l", "r"], name="split_Split", axis=axis, **attributes))
        halves = [net.quantize(side, 0.02, 120, 2 if axis == 1 else 4) for side in ("l", "r")]
        net.node("Concat", [halves[1], halves[0]], "swapped", axis=axis)
        return net.done("swapped", 0.02, 120)

    return make


def cut(starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]) -> Case:
    def make() -> bytes:
        net = Net()
        given = [net.whole(name, values) for name, values in zip("seap", (starts, ends, axes, steps), strict=True)]
        return net.done(net.node("Slice", [net.frame, *given], "f"), 0.02, 120)

    return make


def cut_then_conv() -> bytes:
    net = Net()
    given = [net.whole(n, v) for n, v in (("s", [1, 2, 3]), ("e", [4, -1, 100]), ("a", [1, 2, 3]))]
    part = net.quantize(net.node("Slice", [net.frame, *given], "f"), 0.02, 120, 3)
    return net.done(net.conv(part, "last", 4))


def gather() -> bytes:
    net = Net()
    return net.done(net.node("Gather", [net.frame, net.whole("i", [3, 0, 0, -2])], "f", axis=1), 0.02, 120)


def conv_quantised_twice() -> bytes:
    """One float result on two grids: two convolutions of one node, each with constants of its own."""
    net = Net()
    both = net.conv(net.frame, "both", 4)
    bent = net.quantize(net.node("Relu", [both], "bent"), 0.02, 0, 4)
    plain = net.quantize(both, 0.03, 110, 4)
    return net.done(net.node("Concat", [bent, plain], "joined", axis=1), 0.03, 110)


def pad(pads: Sequence[int], then: str) -> Case:
    def make() -> bytes:
        net = Net()
        padded = net.node("Pad", [net.frame, net.whole("pads", pads), net.floats("zero", 0.0)], "padded")
        padded = net.quantize(padded, 0.02, 120, 4)
        if then == "conv":
            return net.done(net.conv(padded, "last", 4, stride=2))
        if then == "average":
            average = net.node(
                "AveragePool", [padded], "f", kernel_shape=[3, 3], pads=[1, 0, 0, 1], count_include_pad=1
            )
            return net.done(average, 0.02, 120)
        return net.done(net.node("MaxPool", [padded], "f", kernel_shape=[2, 2]), 0.02, 120)

    return make


def resize(scales: Sequence[float], scale: float = 0.02, **attributes: object) -> Case:
    def make() -> bytes:
        net = Net()
        given = net.floats("scales", [1, 1, *scales])
        return net.done(net.node("Resize", [net.frame, "", given], "f", **attributes), scale, 120)

    return make


def resize_to(sizes: Sequence[int], **attributes: object) -> Case:
    def make() -> bytes:
        net = Net()
        return net.done(
            net.node("Resize", [net.frame, "", "", net.whole("n", [1, 4, *sizes])], "f", **attributes), 0.02, 120
        )

    return make


def shuffle(operator: str, block: int, mode: str, channels: int, between: bool = True) -> Case:
    """Conv -> DepthToSpace -> Conv, or Conv -> SpaceToDepth -> Conv."""

    def make() -> bytes:
        net = Net()
        a = net.features("a", channels)
        attributes: dict[str, object] = {"blocksize": block}
        if operator == "DepthToSpace" or mode != "DCR":
            attributes["mode"] = mode
        moved = net.node(operator, [a], "moved", **attributes)
        after = channels // block**2 if operator == "DepthToSpace" else channels * block**2
        net.channels[moved] = after
        net.scales[moved] = np.float32(0.03)
        if between:
            moved = net.quantize(moved, 0.03, 110, after)
        return net.done(net.conv(moved, "last", 4))

    return make


def spelled_shuffle(first: Sequence[int], order: Sequence[int], last: Sequence[int], quantized: bool) -> Case:
    """A shuffle as Reshape, Transpose, Reshape of 4 channels at 8x12."""

    def make() -> bytes:
        net = Net()
        value = net.frame
        value = net.node("Reshape", [value, net.whole("s1", first)], "r1")
        value = net.quantize(value, 0.02, 120, 4) if quantized else value
        value = net.node("Transpose", [value], "t", perm=list(order))
        value = net.quantize(value, 0.02, 120, 4) if quantized else value
        value = net.node("Reshape", [value, net.whole("s2", last)], "r2")
        return net.done(value, 0.02, 120)

    return make


def gemm(head: str, trans: bool, bias: bool = True) -> Case:
    """A classifier: convolution, pool or not, flatten, Gemm, Relu."""

    def make() -> bytes:
        net = Net()
        value = net.features("a", 6, stride=2)
        size = 6 * 4 * 6
        if head == "pool":
            value = net.quantize(net.node("GlobalAveragePool", [value], "mean"), 0.02, 110, 6)
            size = 6
        value = net.node("Flatten", [value], "flat")
        net.scales["flat"] = net.scales["a_dq"] if head != "pool" else np.float32(0.02)
        weights = net.matrix("w", size, 5, trans)
        operands = [value, weights]
        if bias:
            scale = (net.scales["flat"] * net.matrix_scale).astype(np.float32)
            parts = [
                net.constant("bq", np.arange(-200, 300, 100, np.int32)),
                net.constant("bs", scale),
                net.constant("bz", np.zeros(5, np.int32)),
            ]
            operands.append(net.node("DequantizeLinear", parts, "b", axis=0))
        value = net.node("Gemm", operands, "out", transB=int(trans))
        return net.done(net.node("Relu", [value], "r"), 0.04, 0)

    return make


def tokens() -> bytes:
    """A linear layer over tokens: NCHW to [1, HW, C], MatMul, back."""
    net = Net()
    value = net.node("Reshape", [net.frame, net.whole("s1", [0, 4, -1])], "r1")
    value = net.node("Transpose", [value], "t1", perm=[0, 2, 1])
    value = net.quantize(net.node("MatMul", [value, net.matrix("w", 4, 6, False)], "m"), 0.05, 128, 6)
    value = net.node("Transpose", [value], "t2", perm=[0, 2, 1])
    return net.done(net.node("Reshape", [value, net.whole("s2", [1, 6, 8, 12])], "r2"), 0.05, 128)


def softmax(axis: int) -> Case:
    def make() -> bytes:
        net = Net()
        return net.done(net.node("Softmax", [net.frame], "f", axis=axis), 1 / 256, 0)

    return make


def attention() -> bytes:
    """Two activations multiplied: scores, softmax, times a."""
    net = Net()
    a, b = net.features("a", 4), net.features("b", 4, 0.02, 128)
    sizes = net.whole("sizes", [1, 4, 12, 8])
    b = net.quantize(net.node("Resize", [b, "", "", sizes], "turned", mode="nearest"), 0.02, 128, 4)
    scores = net.quantize(net.node("MatMul", [a, b], "scores"), 0.05, 100, 4)
    weights = net.quantize(net.node("Softmax", [scores], "soft", axis=3), 1 / 255, 0, 4)
    return net.done(net.node("MatMul", [weights, a], "f"), 0.03, 110)


def batch_normalization(behind_convolution: bool = False) -> bytes:
    net = Net()
    value = net.conv(net.frame, "a", 4) if behind_convolution else net.frame
    random = np.random.default_rng(2)
    numbers = [random.uniform(0.5, 1.5, 4), random.normal(0, 1, 4), random.normal(0, 1, 4), random.uniform(0.5, 2, 4)]
    names = [net.floats(f"n{i}", values) for i, values in enumerate(numbers)]
    if behind_convolution:
        net.constants["n0"].CopyFrom(numpy_helper.from_array(np.float32([0.7, -1.2, 0.0, 1.4]), "n0"))
    value = net.node("BatchNormalization", [value, *names], "f")
    return net.done(net.node("Relu", [value], "r") if behind_convolution else value, 0.03, 100)


def rescaled() -> bytes:
    net = Net()
    return net.done(net.quantize(net.frame, 0.033, 90, 4), 0.027, 131)


def dynamic_reshape() -> bytes:
    """PixelShuffle as torch spells it with dynamic extents: Shape, Gather, Mul, Concat."""
    net = Net()
    value = net.features("a", 12)
    net.node("Shape", [value], "shape")
    one = net.whole("one", [1])
    h = net.node("Gather", ["shape", net.whole("i2", [2])], "h", axis=0)
    w = net.node("Gather", ["shape", net.whole("i3", [3])], "w", axis=0)
    two_ = net.whole("two", [2])
    first = net.node("Concat", [one, net.whole("c", [3]), two_, two_, h, w], "s1", axis=0)
    value = net.node("Reshape", [value, first], "r1")
    value = net.node("Transpose", [value], "t", perm=[0, 1, 4, 2, 5, 3])
    high, wide = net.node("Mul", [h, two_], "h2"), net.node("Mul", [w, two_], "w2")
    value = net.node(
        "Reshape", [value, net.node("Concat", [one, net.whole("c2", [3]), high, wide], "s2", axis=0)], "r2"
    )
    return net.done(value, 0.03, 110)
