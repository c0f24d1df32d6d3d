"""Answers lab requests with one emulated device: a request in, a header and arrays out, no I/O but the
bundle's.

Why apart from edge_agent/lab.py: what a request means is tested without a process. Invariant: `answer` never
raises; whatever the device refuses becomes `{"ok": false, "error": {kind, message}}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contracts.bundle import Bundle, BundleError
from contracts.lab.messages import PROTOCOL, Array, Message
from contracts.npu.program import Program, ProgramError
from edge_agent.runtime.npu import Faults, LoadedProgram, NpuDevice, NpuError
from edge_agent.runtime.npu.bound import core_of
from edge_agent.runtime.npu.checking import check_profile
from edge_agent.runtime.npu.device import RunResult, find_profile
from edge_agent.runtime.npu.faults import FaultsInvalid
from edge_agent.runtime.npu.timing import KernelTime

Answer = tuple[dict[str, object], Mapping[str, Array]]
BUNDLE_PROGRAMS = ("model", "model-little", "quality")
MICRO_PROGRAMS_KEPT = 8
_EXPECTED = (NpuError, BundleError, ProgramError, FaultsInvalid, OSError, KeyError, ValueError)


class RequestRefused(ValueError):
    """The request names something that is not there or has the wrong form."""


class LabDevice:
    """A device, the bundle that it holds, and a few single programs."""

    def __init__(self, device: NpuDevice) -> None:
        self._device = device
        self._bundle: Bundle | None = None
        self._loaded: dict[str, LoadedProgram] = {}
        self._operations: dict[str, Callable[[Message], Answer]] = {
            "hello": self._hello,
            "load": self._load,
            "load_program": self._load_program,
            "profiles": self._profiles,
            "run": self._run,
            "faults": self._faults,
            "check": self._check,
            "shutdown": lambda request: ({}, {}),
        }

    def answer(self, request: Message) -> Answer:
        """Return the answer's header and arrays."""
        try:
            operation = self._operations.get(str(request.header.get("op")))
            if operation is None:
                known = ", ".join(self._operations)
                raise RequestRefused(f"unknown operation {request.header.get('op')!r}; known: {known}")
            header, arrays = operation(request)
        except _EXPECTED as error:
            message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
            return {"ok": False, "error": {"kind": type(error).__name__, "message": message}}, {}
        return {"ok": True, **header}, arrays

    def _hello(self, request: Message) -> Answer:
        device = self._device
        info = {
            "protocol": PROTOCOL,
            "device_class": device.spec.name,
            "engine": device.engine.name,
            "driver": device.driver,
            "array_model": device.array_model.name,
        }
        return {"info": info}, {}

    def _load(self, request: Message) -> Answer:
        bundle = Bundle.open(Path(_text(request, "path")))
        target = self._device.spec.name
        names = [name for name in BUNDLE_PROGRAMS if f"{target}/{name}.npu" in bundle.names]
        if not names:
            raise RequestRefused(f"the bundle has no program for {target}; it has {', '.join(bundle.targets)}")
        loaded = {name: self._device.load(bundle.program(target, name)) for name in names}
        for name in BUNDLE_PROGRAMS:
            self._loaded.pop(name, None)
        self._loaded.update(loaded)
        self._bundle = bundle
        manifest = bundle.manifest
        facts = {
            "build_id": manifest.build_id,
            "release_version": manifest.release_version,
            "security_epoch": manifest.security_epoch,
            "digest": bundle.digest,
            "programs": names,
        }
        return {"bundle": facts}, {}

    def _load_program(self, request: Message) -> Answer:
        name = _text(request, "name")
        blob = request.arrays.get("program")
        if blob is None or blob.dtype != np.uint8 or blob.ndim != 1:
            raise RequestRefused("load_program needs the array 'program' of bytes")
        loaded = self._device.load(Program.open(blob.data), bind_all=True)
        self._loaded.pop(name, None)
        self._loaded[name] = loaded
        micro = [key for key in self._loaded if key not in BUNDLE_PROGRAMS]
        for old in micro[:-MICRO_PROGRAMS_KEPT]:
            del self._loaded[old]
        return {"profiles": _profile_facts(loaded)}, {}

    def _profiles(self, request: Message) -> Answer:
        return {"profiles": _profile_facts(self._program(request))}, {}

    def _run(self, request: Message) -> Answer:
        loaded = self._program(request)
        frames = request.arrays.get("frames")
        if frames is None or frames.dtype != np.uint8 or frames.ndim != 4 or not len(frames):
            raise RequestRefused("run needs the array 'frames', uint8 [n, h, w, c] with n > 0")
        profile = request.header.get("profile")
        name = None if profile is None else str(profile)
        images: NDArray[np.uint8] = frames.view(np.uint8)
        results = [self._device.infer(loaded, frame, name) for frame in images]
        return self._measured(loaded, images[0], name, results)

    def _measured(
        self, loaded: LoadedProgram, frame: NDArray[np.uint8], profile: str | None, results: list[RunResult]
    ) -> Answer:
        entry = loaded.program.profiles[find_profile(loaded.program, frame, profile)]
        time = results[0].time
        header: dict[str, object] = {
            "kernels": [_kernel_row(kernel) for kernel in time.kernels],
            "nominal_ms": {
                model.name: self._device.nominal_time(loaded, entry.name, model.name).total_ns / 1e6
                for model in self._device.spec.array_models
            },
            "ddr_bytes": time.ddr_bytes,
            "sram_peak": entry.sram_peak,
            "build_id": loaded.build_id,
        }
        arrays: dict[str, Array] = {"latency_ms": np.array([result.simulated_ms for result in results])}
        for name in results[0].outputs:
            arrays[f"output:{name}"] = np.stack([result.outputs[name] for result in results])
        return header, arrays

    def _faults(self, request: Message) -> Answer:
        self._device.set_faults(Faults.from_mapping(request.header.get("faults")))
        self._loaded = {name: self._device.rematch(loaded) for name, loaded in self._loaded.items()}
        return {"faults": self._device.faults.to_mapping()}, {}

    def _check(self, request: Message) -> Answer:
        loaded = self._program(request)
        wanted = request.header.get("profile")
        spec = core_of(self._device.spec, loaded.program.target)
        findings = []
        for index, entry in enumerate(loaded.program.profiles):
            if wanted in (None, entry.name):
                memory_map = self._memory_map(str(request.header["program"]), entry.name)
                findings += check_profile(loaded.program, index, spec, memory_map)
        return {"findings": findings}, {}

    def _memory_map(self, program: str, profile: str) -> dict[str, object] | None:
        """Return the bundle's memory map of one profile; None for single programs and bundles without one."""
        piece = f"{self._device.spec.name}/memory_map.json"
        if program not in BUNDLE_PROGRAMS or self._bundle is None or piece not in self._bundle.names:
            return None
        entry: dict[str, object] = self._bundle.json(piece)["programs"][program][profile]
        return entry

    def _program(self, request: Message) -> LoadedProgram:
        name = _text(request, "program")
        if name not in self._loaded:
            loaded = ", ".join(self._loaded) or "nothing"
            raise RequestRefused(f"no program {name!r} is loaded; loaded: {loaded}; send load first")
        return self._loaded[name]


def _text(request: Message, key: str) -> str:
    value = request.header.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= 4096:
        raise RequestRefused(f"{request.header.get('op')} needs {key!r}, a text of 1 to 4096 characters")
    return value


def _profile_facts(loaded: LoadedProgram) -> list[dict[str, object]]:
    return [
        {
            "name": entry.name,
            "height": entry.input_height,
            "width": entry.input_width,
            "channels": entry.input_channels,
            "sram_peak": entry.sram_peak,
            "ddr_bytes": entry.ddr_bytes,
        }
        for entry in loaded.program.profiles
    ]


def _kernel_row(kernel: KernelTime) -> dict[str, object]:
    return {
        "name": kernel.name,
        "microseconds": kernel.busy_ns / 1000,
        "compute_us": kernel.compute_ns / 1000,
        "stream_us": kernel.stream_ns / 1000,
        "ddr_bytes": kernel.ddr_bytes,
        "commands": kernel.commands,
        "bound_by": kernel.bound_by,
    }
