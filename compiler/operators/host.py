"""HOST: operators that the host processor runs in the same arena."""

from __future__ import annotations

from compiler.golden_host import exponentials
from compiler.ir import Graph, Host, HostFunction
from compiler.operators.command import Command, Constant, describe, requantize
from contracts.npu import Op


def fill(command: Command, graph: Graph, step: Host, constant: Constant) -> None:
    """``mode`` names the function. A deformable alignment also has weights, bias and multipliers, which the caller
    fills as those of a CONV.
    """
    source, result = graph.values[step.a], graph.values[step.result]
    command["op"], command["mode"] = Op.HOST, step.function
    command["kh"], command["kw"] = step.kernel
    command["sh"] = command["sw"] = step.factor
    command["dh"] = command["dw"] = 1
    command["groups"] = 1
    describe(command, "a", source)
    if step.b:
        describe(command, "b", graph.values[step.b])
    describe(command, "c", result)
    requantize(command, source, result, step.clamp)
    if step.function == HostFunction.SOFTMAX:
        command["dh"], command["weights_offset"] = step.axis, constant(step.name)
    elif step.function == HostFunction.DYNAMIC_UPSAMPLING:
        command["pt"] = command["pb"] = step.kernel[0] // 2
        command["pl"] = command["pr"] = step.kernel[1] // 2
    elif step.convolution is not None:
        command["dh"], command["dw"] = step.convolution.dilations
        command["pt"], command["pb"], command["pl"], command["pr"] = step.convolution.pads


def constant_bytes(graph: Graph, step: Host) -> bytes:
    """The exponentials of a softmax."""
    if step.function != HostFunction.SOFTMAX:
        return b""
    return exponentials(graph.values[step.a].scale).astype("<i4").tobytes()
