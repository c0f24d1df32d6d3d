"""Three widths of one net in one program: cut from the same integers, constants shared, switched like profiles."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.emulator.runners import TARGET, onnxruntime_whole
from benchmarks.emulator.switching import SIZES, Switch, switch
from benchmarks.reference_nets import QuantizedNet, narrowed, net_named, qdq_model, quantized_net, smooth_frame
from compiler.driver import compile_bundle, compile_program
from contracts.bundle import Bundle
from contracts.npu import Program
from edge_agent.runtime.npu import NpuDevice

NET = "c64x8"
WIDTHS = {"0.75": 48, "0.5": 32}


def nets_by_width() -> dict[str, QuantizedNet]:
    """The full net under the empty name, and its narrower ones."""
    whole = quantized_net(net_named(NET))
    return {"": whole, **{name: narrowed(whole, channels) for name, channels in WIDTHS.items()}}


def program_with_widths(size: tuple[int, int] = SIZES[0]) -> Program:
    """All widths in one program, as they ship."""
    models = {name: qdq_model(net) for name, net in nets_by_width().items()}
    full = models.pop("")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "widths.elb"
        compile_bundle(full, None, None, [TARGET], [size], {}, path, "1.0.0", 1, widths=models)
        return Program.open(bytes(Bundle.open(path).piece(f"{TARGET}/model.npu")))


def profile_name(width: str, size: tuple[int, int] = SIZES[0]) -> str:
    """What the compiler calls a width's profile."""
    return f"{size[0]}x{size[1]}" + (f"@{width}" if width else "")


def differences(program: Program, size: tuple[int, int] = SIZES[0]) -> int:
    """Bytes that differ from ONNX Runtime over the whole graph, all widths together."""
    device = NpuDevice(TARGET, jitter=0.0)
    loaded = device.load(program, bind_all=True)
    frame = smooth_frame(*size, seed=3)
    wrong = 0
    for width, net in nets_by_width().items():
        (image,) = device.infer(loaded, frame, profile_name(width, size)).outputs.values()
        wrong += int(np.count_nonzero(image != onnxruntime_whole(net, *size)(frame)))
    return wrong


def separate_constants(size: tuple[int, int] = SIZES[0]) -> int:
    """Bytes of constants when each width is a program of its own."""
    programs = [compile_program(qdq_model(net), TARGET, [size])[0] for net in nets_by_width().values()]
    return sum(len(Program.open(data).constants) for data in programs)


def width_switch(program: Program) -> Switch:
    """Between the full and the narrowest width."""
    return switch(program, [(profile_name(width), SIZES[0]) for width in ("", list(WIDTHS)[-1])])
