"""Faults that can be injected into an emulated device, as data (JSON), and their seeded source.

Invariants: the same seed and the same sequence of runs give the same faults; a fault never needs code.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np


class FaultsInvalid(ValueError):
    """The fault description has an unknown field or a value out of range."""


@dataclass(frozen=True)
class Faults:
    """What goes wrong on one device; the default is a healthy one.

    `match` limits the faults to programs whose build id (hex) starts with it, or that have a kernel name in
    which the regular expression is found; None means every program. `driver` is the device's driver version;
    None means the newest that the target accepts. `operating_point` is the DVFS step of a hot device: 0 is
    the fastest, numbers behind the last mean the slowest; like the driver it concerns every program.
    """

    driver_error_rate: float = 0.0
    hang_rate: float = 0.0
    bit_flip_rate: float = 0.0
    slow_factor: float = 1.0
    operating_point: int = 0
    driver: str | None = None
    match: str | None = None

    def __post_init__(self) -> None:
        for name in ("driver_error_rate", "hang_rate", "bit_flip_rate"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise FaultsInvalid(f"{name} must lie in 0..1, got {getattr(self, name)!r}")
        if not 0.1 <= self.slow_factor <= 1000.0:
            raise FaultsInvalid(f"slow_factor must lie in 0.1..1000, got {self.slow_factor!r}")
        if type(self.operating_point) is not int or not 0 <= self.operating_point <= 15:
            raise FaultsInvalid(f"operating_point must be 0..15, got {self.operating_point!r}")
        if self.driver is not None and not re.fullmatch(r"\d{1,4}(\.\d{1,4}){0,3}", self.driver):
            raise FaultsInvalid(f"driver must be a dotted version such as 1.2, got {self.driver!r}")
        try:
            re.compile(self.match or "")
        except re.error as error:
            raise FaultsInvalid(f"match is not a regular expression: {error}") from error

    @classmethod
    def from_mapping(cls, raw: object) -> Faults:
        """Read a decoded JSON object; raises FaultsInvalid naming the field."""
        if not isinstance(raw, dict):
            raise FaultsInvalid(f"faults must be a JSON object, got {type(raw).__name__}")
        unknown = sorted(set(raw) - {field.name for field in fields(cls)})
        if unknown:
            raise FaultsInvalid(f"unknown fault {unknown}; known: {[field.name for field in fields(cls)]}")
        try:
            return cls(**raw)
        except TypeError as error:
            raise FaultsInvalid(f"a fault has the wrong type: {error}") from error

    @classmethod
    def from_json(cls, text: str) -> Faults:
        """Read JSON text; raises FaultsInvalid."""
        try:
            return cls.from_mapping(json.loads(text))
        except json.JSONDecodeError as error:
            raise FaultsInvalid(f"faults are not JSON: {error}") from error

    def to_mapping(self) -> dict[str, Any]:  # Any: JSON values
        """Return the JSON object that `from_mapping` reads."""
        return asdict(self)

    def concerns(self, build_id: str, kernel_names: tuple[str, ...]) -> bool:
        """Whether these faults apply to a program of this build with these kernels."""
        if self.match is None:
            return True
        if self.match and build_id.startswith(self.match.lower()):
            return True
        return any(re.search(self.match, name) for name in kernel_names)


@dataclass(frozen=True)
class RunFaults:
    """What happens to one run."""

    driver_error: bool = False
    hang: bool = False
    bit_flip: bool = False


class FaultSource:
    """Draws each run's faults from the device's own seed."""

    def __init__(self, faults: Faults, seed: int) -> None:
        self.faults = faults
        self._random = np.random.default_rng([seed, 0xFA])

    def draw(self) -> RunFaults:
        """Return the faults of the next run."""
        faults = self.faults
        if not (faults.driver_error_rate or faults.hang_rate or faults.bit_flip_rate):
            return RunFaults()
        error, hang, flip = self._random.random(3)
        return RunFaults(error < faults.driver_error_rate, hang < faults.hang_rate, flip < faults.bit_flip_rate)

    def position(self, size: int) -> tuple[int, int]:
        """Return (byte, bit) of a flip in a region of `size` bytes."""
        return int(self._random.integers(size)), int(self._random.integers(8))
