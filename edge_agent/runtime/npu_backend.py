"""The backend `npu`: both programs of a bundle on one emulated device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.bundle import Bundle
from contracts.npu.program import OutputTensor
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
from edge_agent.runtime.npu import FrameRefused, LoadedProgram, NpuDevice, RunResult


@dataclass(frozen=True)
class _Loaded:
    device: NpuDevice
    model: LoadedProgram
    quality: LoadedProgram
    embedding: OutputTensor


class NpuBackend:
    """One device; it is made when the first bundle names its class."""

    name = "npu"

    def __init__(self, options: BackendOptions) -> None:
        self._options = options
        self._loaded: _Loaded | None = None

    @property
    def sizes(self) -> Sequence[tuple[int, int]]:
        profiles = self._ready().model.program.profiles
        return tuple((profile.input_height, profile.input_width) for profile in profiles)

    def load(self, bundle: Bundle, device_class: str) -> None:
        before = self._loaded
        if before is not None and before.device.spec.name == device_class:
            device = before.device
        else:
            options = self._options
            device = NpuDevice(device_class, faults=options.faults, seed=options.seed, shared=options.shared)
        model = device.load(bundle.program(device_class, "model"))
        quality = device.load(bundle.program(device_class, "quality"))
        outputs = {output.name: output for output in quality.program.profiles[0].outputs}
        self._loaded = _Loaded(device, model, quality, outputs["embedding"])

    def upscale(self, frame: Pixels) -> Upscaled:
        loaded = self._ready()
        result = self._run(loaded.device, loaded.model, frame)
        (image,) = result.outputs.values()
        return Upscaled(image, result.simulated_ms, lambda: _spans(result))

    def observe(self, frame: Pixels) -> Observation:
        loaded = self._ready()
        result = self._run(loaded.device, loaded.quality, frame)
        output = loaded.embedding
        embedding = dequantized_mean(result.outputs["embedding"], output.scale, output.zero_point)
        return Observation(result.outputs["features"], embedding, result.simulated_ms)

    def _ready(self) -> _Loaded:
        if self._loaded is None:
            raise BackendFailed("backend npu has no bundle; call load first")
        return self._loaded

    @staticmethod
    def _run(device: NpuDevice, program: LoadedProgram, frame: Pixels) -> RunResult:
        try:
            return device.infer(program, frame)
        except FrameRefused as error:
            raise FrameUnfit(str(error)) from error


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
