"""The two that run the same integers: the emulated device, and ONNX Runtime over the whole graph, one thread each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnxruntime

from benchmarks.reference_nets import NetShape, QuantizedNet, qdq_model, qoperator_model, quantized_net
from compiler.driver import compile_program
from contracts.npu import Program
from edge_agent.runtime.npu import LoadedProgram, NpuDevice

Image = npt.NDArray[np.uint8]
Run = Callable[[Image], Image]
TARGET = "npu-4t"


@dataclass(frozen=True)
class Emulated:
    """A device with one program; without jitter, so that its simulated time is the nominal one."""

    device: NpuDevice
    loaded: LoadedProgram
    estimate_ms: Mapping[str, float]
    """What the compiler said, by array model."""

    def run(self, frame: Image) -> Image:
        """The only output of one frame."""
        (image,) = self.device.infer(self.loaded, frame).outputs.values()
        return image


def emulated(shape: NetShape) -> Emulated:
    """The net compiled for its frame size, on a device of its own."""
    data, report = compile_program(qdq_model(quantized_net(shape)), TARGET, [(shape.height, shape.width)])
    device = NpuDevice(TARGET, jitter=0.0)
    return Emulated(device, device.load(Program.open(data)), report.profiles[0].latency_ms)


def onnxruntime_whole(net: QuantizedNet, height: int, width: int) -> Run:
    """ONNX Runtime at its best: all optimisations, one thread, input and output bound to memory of their own."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1")  # exact also without VNNI
    model = qoperator_model(net, height, width)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    source = np.empty((1, height, width, 3), np.uint8)
    target = np.empty(session.get_outputs()[0].shape, np.uint8)
    image: Image = target[0]
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.uint8, source.shape, source.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.uint8, target.shape, target.ctypes.data)

    def run(frame: Image) -> Image:
        source[0] = frame
        session.run_with_iobinding(binding)
        return image

    return run
