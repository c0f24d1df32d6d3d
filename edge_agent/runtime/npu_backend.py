"""The backend `npu`: the programs of a bundle on one emulated device.

A bundle may carry a second, little set of kernels for the chip's little core (piece `model-little.npu`); on a device
with a climate the backend goes over to it when the device is hot or nearly empty, and back when it has recovered. What
a recurrent net keeps goes with it; it begins anew when the size of the frames changes.

The full program may hold narrower widths of the net too (profiles `size@width`): asked to be light, as on a weak
network, the backend runs the quickest of them on the same core. A pointer changes, between two frames; all widths are
ready.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contracts.bundle import Bundle
from contracts.npu.program import OutputTensor, Program
from edge_agent.runtime.backend import (
    BackendFailed,
    BackendOptions,
    FrameUnfit,
    Observation,
    Pixels,
    Span,
    Upscaled,
    dequantized_mean,
)
from edge_agent.runtime.npu import ClimateModel, FrameRefused, LoadedProgram, NpuDevice, ProgramRefused, RunResult
from edge_agent.runtime.npu.coded import decoded
from edge_agent.runtime.npu.kernel_sets import KernelSet, KernelSetLimits, SetSwitch, switch_due

SWITCHES_KEPT = 100


@dataclass(frozen=True)
class Widths:
    """Indexes of the full and of the quickest profile for one size of frames; the same where there is one width."""

    full: int
    lite: int


@dataclass(frozen=True)
class WidthSwitch:
    """A change of the width, and why; no reason: back to the full one."""

    before: str
    after: str
    reason: str


@dataclass(frozen=True)
class _Loaded:
    device: NpuDevice
    models: Mapping[KernelSet, LoadedProgram]
    quality: LoadedProgram
    embedding: OutputTensor
    widths: Mapping[tuple[int, ...], Widths]


class NpuBackend:
    """One device; it is made when the first bundle names its class. Without a `climate` it is never hot or empty."""

    name = "npu"

    def __init__(
        self,
        options: BackendOptions,
        climate: ClimateModel | None = None,
        limits: KernelSetLimits | None = None,
    ) -> None:
        self._options = options
        self._climate = climate or options.climate
        self._worked_s = 0.0
        self._limits = limits or KernelSetLimits()
        self._loaded: _Loaded | None = None
        self._set = KernelSet.BIG
        self._shape: tuple[int, ...] = ()
        self.switches: deque[SetSwitch] = deque(maxlen=SWITCHES_KEPT)
        self._light = ""
        self._profile: int | None = None
        self.width_switches: deque[WidthSwitch] = deque(maxlen=SWITCHES_KEPT)

    @property
    def sizes(self) -> Sequence[tuple[int, int]]:
        profiles = self._ready().models[KernelSet.BIG].program.profiles
        return tuple((profile.input_height, profile.input_width) for profile in profiles)

    def load(self, bundle: Bundle, device_class: str) -> None:
        before = self._loaded
        if before is not None and before.device.spec.name == device_class:
            device = before.device
        else:
            options = self._options
            device = NpuDevice(
                device_class, faults=options.faults, seed=options.seed, shared=options.shared, climate=self._climate
            )
        models = _load_sets(bundle, device, self._options.marker or (lambda program, file: program))
        quality = device.load(bundle.program(device_class, "quality"))
        outputs = {output.name: output for output in quality.program.profiles[0].outputs}
        if not self._options.shared:
            _warm(device, (quality, *reversed(models.values())))
        widths = _widths(device, models[KernelSet.BIG])
        self._loaded = _Loaded(device, models, quality, outputs["embedding"], widths)
        self._set = KernelSet.BIG
        self.reset()

    def upscale(self, frame: Pixels) -> Upscaled:
        loaded = self._ready()
        self._rest()
        switch = self._choose(loaded)
        if frame.shape != self._shape:
            self.reset()
        profile, narrowed = self._width(loaded, frame)
        result = self._run(loaded.device, loaded.models[self._set], frame, profile)
        self._shape = frame.shape
        self._worked_s += result.simulated_ms / 1e3
        (image,) = result.outputs.values()
        widths = loaded.widths.get(frame.shape)
        lite = self._set is KernelSet.LITTLE or (widths is not None and profile != widths.full)
        return Upscaled(
            image,
            result.simulated_ms,
            lambda: [*_switch_span(switch), *_width_span(narrowed), *_spans(result)],
            lite,
        )

    def lighten(self, reason: str) -> None:
        """Run the quickest width from the next frame on, or the full one when `reason` is empty."""
        self._light = reason[:200]

    def observe(self, frame: Pixels) -> Observation:
        loaded = self._ready()
        result = self._run(loaded.device, loaded.quality, frame)
        self._worked_s += result.simulated_ms / 1e3
        output = loaded.embedding
        embedding = dequantized_mean(result.outputs["embedding"], output.scale, output.zero_point)
        return Observation(result.outputs["features"], embedding, result.simulated_ms)

    def reset(self) -> None:
        """Begin a new stream."""
        self._ready().device.reset()
        self._profile = None

    @property
    def weights(self) -> tuple[NDArray[np.uint8], ...]:
        """Constants and multipliers in use, for those who authenticate them."""
        loaded = self._ready()
        programs = [model.program for model in (*loaded.models.values(), loaded.quality)]
        return tuple(part for program in programs for part in (program.constants, program.quant))

    def idle(self, seconds: float) -> None:
        """Let the device rest between frames; what heats up only cools down when time goes by."""
        self._ready().device.idle(seconds)

    def _rest(self) -> None:
        """Let what is left of the time of a frame go by."""
        if self._climate is not None and self._options.frame_s:
            self.idle(max(0.0, self._options.frame_s - self._worked_s))
        self._worked_s = 0.0

    def _choose(self, loaded: _Loaded) -> SetSwitch | None:
        now = loaded.device.conditions
        switch = switch_due(self._set, now, self._limits) if now else None
        if switch is None or switch.after not in loaded.models:
            return None
        loaded.device.carry_states(loaded.models[switch.before], loaded.models[switch.after])
        self._set = switch.after
        self.switches.append(switch)
        return switch

    def _width(self, loaded: _Loaded, frame: Pixels) -> tuple[int | None, WidthSwitch | None]:
        """Return the profile to run, and the change of width if there is one; the little set has one width."""
        widths = loaded.widths.get(frame.shape)
        if self._set is not KernelSet.BIG or widths is None:
            self._profile = None
            return None, None
        chosen, before = (widths.lite if self._light else widths.full), self._profile
        self._profile = chosen
        if before is None or before == chosen:
            return chosen, None
        big = loaded.models[KernelSet.BIG]
        loaded.device.carry_profile(big, before, chosen)
        names = [big.program.profiles[index].name for index in (before, chosen)]
        switch = WidthSwitch(names[0], names[1], self._light)
        self.width_switches.append(switch)
        return chosen, switch

    def _ready(self) -> _Loaded:
        if self._loaded is None:
            raise BackendFailed("backend npu has no bundle; call load first")
        return self._loaded

    @staticmethod
    def _run(device: NpuDevice, program: LoadedProgram, frame: Pixels, profile: int | None = None) -> RunResult:
        try:
            return device.infer(program, frame, profile)
        except FrameRefused as error:
            raise FrameUnfit(str(error)) from error


def _load_sets(
    bundle: Bundle, device: NpuDevice, marker: Callable[[Program, Path], Program]
) -> dict[KernelSet, LoadedProgram]:
    """Return the kernel sets that the bundle has for the device; raises ProgramRefused when they do not match."""
    target = device.spec.name
    sets = {KernelSet.BIG: device.load(marker(decoded(bundle.program(target, KernelSet.BIG.value)), bundle.path))}
    piece = f"{target}/{KernelSet.LITTLE.value}.npu"
    if piece not in bundle.names:
        return sets
    little = decoded(bundle.program(target, KernelSet.LITTLE.value))
    sets[KernelSet.LITTLE] = device.load(marker(little, bundle.path))
    big, small = ({profile.input for profile in sets[kernels].program.profiles} for kernels in KernelSet)
    if not big <= small:
        missing = sorted(big - small)
        raise ProgramRefused(f"no little kernels for frames {missing}", piece, "build both sets for the same sizes")
    return sets


def _widths(device: NpuDevice, model: LoadedProgram) -> dict[tuple[int, ...], Widths]:
    """Return the full and the quickest profile by size of frames; the full one comes first in the program."""
    by_size: dict[tuple[int, ...], list[int]] = {}
    for index, profile in enumerate(model.program.profiles):
        by_size.setdefault(profile.input, []).append(index)
    return {
        size: Widths(found[0], min(found, key=lambda index: device.nominal_ns(model, index)) if found[1:] else found[0])
        for size, found in by_size.items()
    }


def _warm(device: NpuDevice, programs: Sequence[LoadedProgram]) -> None:
    """Run every profile once now, so that the first frame of a new bundle is as quick as the others; the last one stays
    in the SRAM.
    """
    for program in programs:
        for index in reversed(range(len(program.program.profiles))):
            device.rehearse(program, index)


def _switch_span(switch: SetSwitch | None) -> list[Span]:
    if switch is None:
        return []
    now = switch.conditions
    detail: dict[str, float | int | str] = {
        "reason": switch.reason,
        "temperature_c": now.temperature_c,
        "charge": now.charge,
    }
    return [Span(f"kernels {switch.before.value} -> {switch.after.value}", 0.0, 0.0, detail)]


def _width_span(switch: WidthSwitch | None) -> list[Span]:
    if switch is None:
        return []
    return [Span(f"width {switch.before} -> {switch.after}", 0.0, 0.0, {"reason": switch.reason or "recovered"})]


def _spans(result: RunResult) -> list[Span]:
    """Return a span for each kernel, from its first stripe to its last; kernels may interleave."""
    stretch = result.stretch / 1e6
    return [
        Span(
            kernel.name,
            kernel.start_ns * stretch,
            (kernel.end_ns - kernel.start_ns) * stretch,
            {
                "busy_ms": kernel.busy_ns * stretch,
                "ddr_bytes": kernel.ddr_bytes,
                "commands": kernel.commands,
                "bound_by": kernel.bound_by,
            },
        )
        for kernel in result.time.kernels
    ]
