"""`python -m benchmarks.peers.vela.run`: Vela over the reference nets; writes `results.json` beside this file.

Needs a package index once, for the environment; the nets are written by this project as TFLite files.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path

from benchmarks.peers.environment import Environment, PeerFailed, environment
from benchmarks.peers.vela.results import PATH, NetResult, Results, write_results
from benchmarks.peers.vela.tables import read_tables
from benchmarks.peers.vela.tflite import tflite_model
from benchmarks.reference_nets import NETS, NetShape, quantized_net

REQUIREMENTS = ("ethos-u-vela==5.2.0",)
CONFIGURATION = Path(__file__).parent / "configuration.ini"
SYSTEM, MEMORY, ACCELERATOR = "Lpddr4x_32GBps", "Dedicated_Sram_4MiB", "ethos-u85-2048"
FOLDER = Path(__file__).resolve().parents[3] / "build" / "peers" / "vela"


def run_net(peer: Environment, shape: NetShape, folder: Path) -> NetResult:
    """Write one net, run Vela on it, read its tables."""
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / f"{shape.name}.tflite"
    model.write_bytes(tflite_model(quantized_net(shape)))
    options = ["--accelerator-config", ACCELERATOR, "--config", str(CONFIGURATION)]
    options += ["--system-config", SYSTEM, "--memory-mode", MEMORY]
    peer.run("vela", [str(model), *options, "--verbose-performance", "--output-dir", str(folder)])
    return read_tables(shape.name, folder)


def run_all(folder: Path, date: str) -> Results:
    """All nets in a fresh or kept environment under `folder`."""
    peer = environment(folder / "environment", REQUIREMENTS)
    nets = tuple(run_net(peer, shape, folder / "nets") for shape in NETS)
    source = "Vela's own estimate, not silicon; operators left on the CPU are charged nothing"
    configuration = f"{ACCELERATOR}, {SYSTEM}, {MEMORY}: see configuration.ini"
    return Results(source, date, peer.packages(), configuration, nets)


def main() -> int:
    """Run, write, say what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="environment and files (default: build/peers/vela)")
    parser.add_argument("--out", type=Path, default=PATH, help="where the figures go (default: results.json here)")
    chosen = parser.parse_args()
    try:
        results = run_all(chosen.folder, datetime.datetime.now(datetime.UTC).date().isoformat())
    except PeerFailed as error:
        print(f"Vela did not run: {error}", file=sys.stderr)
        return 1
    write_results(results, chosen.out)
    for net in results.nets:
        print(f"{net.net:12} {net.milliseconds:8.3f} ms {net.dram_mb_per_frame:8.1f} MB, SRAM {net.sram_kib:7.1f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
