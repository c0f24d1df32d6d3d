"""Vela's figures for the reference nets, as committed in `results.json`; `run.py` writes them.

Everything in them is Vela's own estimate for an Ethos-U85-2048 at 1 GHz, not silicon, and depends on no machine.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PATH = Path(__file__).parent / "results.json"


@dataclass(frozen=True)
class OperatorResult:
    """One convolution: name of the reference net's layer, MACs, and cycles of the MAC array and of the operator."""

    name: str
    macs: int
    npu_cycles: int
    total_cycles: int


@dataclass(frozen=True)
class NetResult:
    """One net. Times exclude operators that Vela leaves on the CPU, which it charges nothing for."""

    net: str
    milliseconds: float
    npu_cycles: int
    dram_cycles: int
    total_cycles: int
    sram_kib: float
    dram_mb_per_frame: float
    cpu_operators: tuple[str, ...]
    convolutions: tuple[OperatorResult, ...]


@dataclass(frozen=True)
class Results:
    """All nets, and what made them."""

    source: str
    date: str
    packages: dict[str, str]
    configuration: str
    nets: tuple[NetResult, ...]

    def net(self, name: str) -> NetResult:
        """One net's figures; raises KeyError."""
        for result in self.nets:
            if result.net == name:
                return result
        raise KeyError(f"no figures of Vela for {name!r}; run python -m benchmarks.peers.vela.run")


def read_results(path: Path = PATH) -> Results:
    """The committed figures."""
    return _parsed(json.loads(path.read_text(encoding="utf-8")))


def write_results(results: Results, path: Path = PATH) -> None:
    """Commit-ready JSON, the same bytes for the same figures."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(results), indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def _parsed(raw: dict[str, Any]) -> Results:  # Any: straight from JSON
    nets = [
        NetResult(
            **{
                **net,
                "cpu_operators": tuple(net["cpu_operators"]),
                "convolutions": tuple(OperatorResult(**row) for row in net["convolutions"]),
            }
        )
        for net in raw["nets"]
    ]
    return Results(**{**raw, "nets": tuple(nets)})
