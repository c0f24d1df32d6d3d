"""`edgeloop bench npu`: the emulated device on whole frames of the five reference nets.

Every pixel is compared with the golden interpreter (sums of products through BLAS, exact by a bound that is checked;
see `emulator/exact.py`) and with ONNX Runtime's integer operators over the whole graph. CPU time is process time on
one thread each, medians of alternated runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.emulator import mutating, widths
from benchmarks.emulator.cpu_time import alternated
from benchmarks.emulator.exact import golden_outputs
from benchmarks.emulator.runners import Emulated, emulated, onnxruntime_whole
from benchmarks.emulator.switching import Switch, profile_switch
from benchmarks.reference_nets import NETS, NetShape, qdq_model, quantized_net, smooth_frame
from edgeloop.figures import Figure, at_most, below, exactly

CPU_RATIO = 1.25
SWITCH_MS = 5.0
PEAK_BYTES = 4096
ESTIMATE_PERCENT = 1.0
SEED = 11


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of the emulated device."""
    found: list[Figure] = []
    steps = len(NETS) + 1
    for index, shape in enumerate(NETS):
        share = index / steps

        def say(text: str, at: float = share) -> None:
            tell(at, text)

        found += net_figures(shape, say)
    tell(len(NETS) / steps, "switching profile and width")
    found += [*switch_figures("profile", profile_switch()), *width_figures()]
    counts = mutating.counted(say=lambda text: tell(len(NETS) / steps, text))
    return [*found, *mutation_figures(*counts)]


def net_figures(shape: NetShape, say: Callable[[str], None] = lambda _: None) -> list[Figure]:
    """One net: pixels, CPU time, simulated time."""
    say(f"{shape.name} compiling")
    device, rival = emulated(shape), onnxruntime_whole(quantized_net(shape), shape.height, shape.width)
    frame = smooth_frame(shape.height, shape.width, SEED)
    say(f"{shape.name} golden")
    (golden,) = golden_outputs(qdq_model(quantized_net(shape)), frame).values()
    image = device.run(frame)
    whole = rival(frame).copy()
    say(f"{shape.name} CPU time")
    spent = alternated(lambda: device.run(frame), lambda: rival(frame))
    return [
        exactly(f"{shape.name}.differs_from_golden", _differences(image, golden), f"of {golden.size} bytes", 0),
        exactly(f"{shape.name}.differs_from_onnxruntime", _differences(image, whole), f"of {whole.size} bytes", 0),
        at_most(f"{shape.name}.cpu_ratio", round(spent.ratio, 3), "x ONNX Runtime", CPU_RATIO),
        _printed(f"{shape.name}.cpu_ms", round(spent.ours * 1000, 1), "ms of CPU a frame"),
        _printed(f"{shape.name}.onnxruntime_cpu_ms", round(spent.theirs * 1000, 1), "ms of CPU a frame"),
        *_simulated(shape, device),
    ]


def switch_figures(kind: str, switch: Switch) -> list[Figure]:
    """One kind of switch."""
    return [
        below(f"switch.{kind}_host_ms", round(switch.host_ms, 3), "ms", SWITCH_MS),
        below(f"switch.{kind}_simulated_ms", round(switch.simulated_ms, 3), "ms", SWITCH_MS),
        exactly(f"switch.{kind}_allocated", switch.arrays, "B of arrays", 0),
        at_most(f"switch.{kind}_peak", switch.peak, "B above a steady frame", PEAK_BYTES),
    ]


def width_figures() -> list[Figure]:
    """Three widths in one program: pixels, shared constants, the switch."""
    program = widths.program_with_widths()
    wrong, separate = widths.differences(program), widths.separate_constants()
    together = len(program.constants)
    return [
        exactly("widths.differs_from_onnxruntime", wrong, "bytes, all widths", 0),
        _printed("widths.constants_kb", round(together / 1000, 1), f"kB; {separate / 1000:.1f} kB as programs apart"),
        *switch_figures("width", widths.width_switch(program)),
    ]


def mutation_figures(places: mutating.Counts, arithmetic: mutating.Counts) -> list[Figure]:
    """Programs with one field changed: what became of them."""
    shown = "; ".join(places.missed[:3])
    return [
        _printed("mutations.tried", places.tried, "changed places, extents, orders"),
        _printed("mutations.refused", places.refused, "by the verifier"),
        _printed("mutations.caught", places.caught, "by poisoned execution"),
        _printed("mutations.harmless", places.benign, "same pixels in every order"),
        exactly("mutations.missed", len(places.missed), f"harmful and unseen {shown}".rstrip(), 0),
        _printed("mutations.arithmetic_tried", arithmetic.tried, "changed clamps and scales of additions"),
        _printed("mutations.arithmetic_missed", len(arithmetic.missed), "said once in a program, so nothing can tell"),
    ]


def _simulated(shape: NetShape, device: Emulated) -> list[Figure]:
    """Simulated time by array model, and how far the compiler's estimate is off: both implement one page apart."""
    found = []
    for label, model in (("ideal", "ideal"), ("u85", "u85-like")):
        simulated = device.device.nominal_time(device.loaded, 0, model).total_ns / 1e6
        off = 100 * abs(device.estimate_ms[model] / simulated - 1)
        found.append(_printed(f"{shape.name}.simulated_{label}_ms", round(simulated, 3), "ms a frame"))
        found.append(at_most(f"{shape.name}.estimate_{label}_off", round(off, 4), "%", ESTIMATE_PERCENT))
    return found


def _differences(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> int:
    return int(np.count_nonzero(one != other)) if one.shape == other.shape else max(one.size, other.size)


def _printed(name: str, value: float, unit: str) -> Figure:
    return Figure(name, value, unit, "printed", True)
