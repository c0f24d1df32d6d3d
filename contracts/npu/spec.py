"""The NPU targets: every hardware limit and every assumption of the timing model, as data.

Both the compiler (estimate) and the emulated device (simulation) read these fields; neither keeps a constant
of its own. The timing rules that use them are prose in ``docs/reference/npu-spec.md``.

A target may have a little core, ``<target>/little``: the same chip with less of the array and of the SRAM switched on,
and less power. Its data are the fields of the target that differ.

Invariants: a specification is immutable; an unknown target names the known ones; ``ideal`` and ``u85-like``
array models exist in every target and its little core; a little core has the target's memories, clock and drivers, and
no more of anything."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import resources
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

LITTLE = "/little"
Whole = TypeVar("Whole", int, npt.NDArray[np.int64])


class UnknownTarget(KeyError):
    """No specification carries this name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"unknown NPU target {self.name!r}; known targets: {', '.join(target_names())}"


@dataclass(frozen=True)
class ArrayModel:
    """How the MAC array is filled: each extent is rounded up to a multiple before it is counted.

    `macs_per_cycle` is the array's width at the clock of the operating point.
    """

    name: str
    macs_per_cycle: int
    tap_multiple: int
    input_channel_multiple: int
    output_channel_multiple: int

    def charged_macs(self, positions: Whole, taps: Whole, inputs_per_group: Whole, outputs: Whole) -> Whole:
        """MACs that the array spends on ``positions`` outputs of a ``taps``-tap convolution, padding
        included; numbers, or arrays of them.
        """
        return (
            positions
            * _round_up(taps, self.tap_multiple)
            * _round_up(inputs_per_group, self.input_channel_multiple)
            * _round_up(outputs, self.output_channel_multiple)
        )


@dataclass(frozen=True)
class OperatingPoint:
    """One step of dynamic voltage and frequency scaling, fastest first in the specification."""

    mhz: int
    millivolt: int


@dataclass(frozen=True)
class Thermal:
    """First-order heat model: steady rise = power x resistance, approached with one time constant."""

    ambient_c: float
    throttle_c: float
    release_c: float
    resistance_c_per_w: float
    time_constant_s: float
    idle_w: float
    peak_w: float


@dataclass(frozen=True)
class NpuSpec:
    """One target. Rates are per nanosecond at ``nominal_mhz``; sizes are bytes."""

    name: str
    version: int
    description: str
    peak_macs_per_ns: float
    nominal_mhz: int
    sram_bytes: int
    ddr_bytes: int
    ddr_bytes_per_ns: float
    ddr_efficiency: float
    dma_descriptor_ns: float
    launch_us: float
    dispatch_us: float
    alignment: int
    quant_zone_bytes: int
    vector_elements_per_ns: float
    host_call_us: float
    host_elements_per_ns: float
    driver_minimum: str
    driver_maximum: str
    array_models: tuple[ArrayModel, ...]
    dvfs: tuple[OperatingPoint, ...]
    thermal: Thermal
    little: str | None = None
    """Name under which :func:`load_spec` gives the little core of the same chip; None: it has none."""

    def array_model(self, name: str) -> ArrayModel:
        """The array model of that name."""
        for model in self.array_models:
            if model.name == name:
                return model
        raise KeyError(f"target {self.name} has no array model {name!r}; it has {[m.name for m in self.array_models]}")

    def supports_driver(self, version: str) -> bool:
        """Whether a driver of this dotted version runs programs for this target."""
        low, high, seen = (_version(v) for v in (self.driver_minimum, self.driver_maximum, version))
        return low <= seen <= high


def target_names() -> tuple[str, ...]:
    """Names of all known targets, sorted."""
    folder = resources.files(__package__) / "data"
    return tuple(sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".json")))


@lru_cache(maxsize=16)
def load_spec(name: str) -> NpuSpec:
    """The specification of the target ``name``, or of its little core ``<target>/little``; raises
    :class:`UnknownTarget`.
    """
    target = chip_of(name)
    if target not in target_names():
        raise UnknownTarget(name)
    text = (resources.files(__package__) / "data" / f"{target}.json").read_text(encoding="utf-8")
    raw = cast("dict[str, Any]", json.loads(text))  # Any: JSON values are checked field by field below
    little = raw.pop("little", None)
    if name == target:
        return _parse({**raw, "little": target + LITTLE if little else None})
    if not little:
        raise UnknownTarget(name)
    return _parse({**raw, **little, "name": name, "little": None})


def chip_of(name: str) -> str:
    """The target whose chip runs programs for ``name``: the target itself, or that of the little core."""
    return name.removesuffix(LITTLE)


def core_name(name: str) -> str:
    """Which core of its chip runs programs for ``name``: ``big`` or ``little``."""
    return "little" if name.endswith(LITTLE) else "big"


def _parse(raw: dict[str, Any]) -> NpuSpec:  # Any: straight from JSON
    known = {field.name for field in fields(NpuSpec)}
    if set(raw) != known:
        raise ValueError(f"NPU specification fields differ from the contract: {sorted(set(raw) ^ known)}")
    nested = {
        "array_models": tuple(ArrayModel(**model) for model in raw["array_models"]),
        "dvfs": tuple(OperatingPoint(**point) for point in raw["dvfs"]),
        "thermal": Thermal(**raw["thermal"]),
    }
    return NpuSpec(**{**raw, **nested})


def _round_up(value: Whole, multiple: int) -> Whole:
    return -(-value // multiple) * multiple


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
