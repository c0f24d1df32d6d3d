"""Make a quantiser's environment and let it do a task.

`python -m benchmarks.peers.quantisers.run` makes all environments ahead of the bench (a package index is needed once).
They lie under `build/peers/<name>` and see this interpreter's torch and ONNX Runtime behind their own packages, which
are installed with `pip install --no-deps`: their requirements would replace torch.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.environment import Environment, PeerFailed, layered_environment
from benchmarks.peers.quantisers.task import TOLD

ROOT = Path(__file__).resolve().parents[3]
_ONNX = ("onnxscript==0.7.2", "onnx_ir==1.1.0")


@dataclass(frozen=True)
class Peer:
    """What pip is asked for, and the module that runs inside."""

    requirements: tuple[str, ...]
    module: str


PEERS = {
    "brevitas": Peer(
        ("brevitas==0.13.4", "dependencies==2.0.1", "unfoldNd==0.2.3", "onnxoptimizer==0.4.2", *_ONNX), "in_brevitas"
    ),
    "torchao": Peer(("torchao==0.18.0", *_ONNX), "in_torchao"),
    "nncf": Peer(
        ("nncf==3.4.0", "torchao==0.18.0", "ninja==1.13.2", "pydot==4.0.1", "openvino-telemetry==2025.2.0",
         "tabulate==0.10.0", "safetensors==0.8.0", *_ONNX),
        "in_nncf",
    ),
    "aimet": Peer(("aimet-torch==2.42.0", "safetensors==0.8.0", "tqdm==4.70.1", *_ONNX), "in_aimet"),
}  # fmt: skip


def place(name: str) -> Environment:
    """The environment of a peer, made when it is not there. Raises PeerFailed."""
    return layered_environment(ROOT / "build" / "peers" / name, PEERS[name].requirements)


def run_peer(name: str, folder: Path, seconds: float = 7_200.0) -> dict[str, Any]:  # Any: JSON
    """Do the task in `folder`; what the peer told. Raises PeerFailed."""
    module = f"benchmarks.peers.quantisers.{PEERS[name].module}"
    place(name).run("python", ["-m", module, str(folder)], folder=ROOT, seconds=seconds)
    told: dict[str, Any] = json.loads((folder / TOLD).read_text())
    return told


def main() -> int:
    """Make every environment; leaves with 1 when one cannot be made."""
    missing = 0
    for name in PEERS:
        try:
            print(name, place(name).packages())
        except PeerFailed as error:
            missing += 1
            print(f"{name} was not installed: {error}", file=sys.stderr)
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
