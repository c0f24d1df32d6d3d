"""What sealing costs a device: opening a bundle through the trusted environment's process, beside opening a plain one.

Everything here happens beside the frame loop; no frame waits for any of it. The limit printed beside is AES-256-GCM
alone over the same bytes. The trusted environment is emulated: a process on the same cores.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from benchmarks.mending.seed_bundle import seed_bundle
from benchmarks.updating.deltas import DATA
from contracts.bundle import Bundle
from contracts.bundle.delta import make_delta
from edge_agent.tee.client import TeeProcess
from edgeloop.figures import Figure
from tests.support.sealing_twin import CLASSES, Sealer

ROUNDS = 30
DEVICE_CLASS = "npu-4t"


def figures(folder: Path) -> list[Figure]:
    """Times as medians of 30, with the range; bytes of a sealed delta."""
    base, after = seed_bundle(folder / "one.elb"), seed_bundle(folder / "two.elb", DATA / "short.onnx", "2.0.0")
    data, digest = base.read_bytes(), Bundle.open(base).digest
    sealer, tee = Sealer(), TeeProcess(folder / "tee", CLASSES)
    try:
        began = time.perf_counter()
        mine = tee.public().sealing
        started = (time.perf_counter() - began) * 1e3
        path, sealed = sealer.bundle(data, digest, 1)
        envelope = sealer.envelope(path, mine) or b""
        stored = tee.admit(sealed, envelope, DEVICE_CLASS)
        opened = _times(lambda: Bundle.of(tee.open(stored), base).digest)
        admitted = _times(lambda: tee.admit(sealed, envelope, DEVICE_CLASS))
    finally:
        tee.close()
    plain = _times(lambda: Bundle.open(base).digest)
    key, nonce = AESGCM(AESGCM.generate_key(256)), os.urandom(12)
    cipher = key.encrypt(nonce, data, None)
    limit = _times(lambda: key.decrypt(nonce, cipher, None))
    result, result_digest = after.read_bytes(), Bundle.open(after).digest
    delta = len(make_delta(data, result))
    sealed_delta = len(sealer.delta(data, digest, result, result_digest, 1)[1])
    size = f"{len(data):,} bytes"
    ratio = statistics.median(opened) / statistics.median(plain)
    return [
        _printed("sealed.open", opened, f"through the process, checks included; {size}"),
        _printed("sealed.open_plain", plain, f"the same bundle plain, checks included; {size}"),
        Figure("sealed.open_ratio", round(ratio, 2), "times the plain bundle", "printed", True),
        _printed("sealed.cipher_alone", limit, "AES-256-GCM alone over these bytes: the limit"),
        _printed("sealed.admit", admitted, "envelope, decryption, SHA-384, encryption for the disk"),
        Figure("sealed.start", round(started, 1), "ms, once: the process and its keys", "printed", True),
        Figure("sealed.bytes", len(sealed) - len(data), f"bytes more than {size}", "printed", True),
        Figure("sealed.delta_bytes", sealed_delta - delta, f"bytes more than {delta:,} of the delta", "printed", True),
    ]


def _times(work: Callable[[], object]) -> list[float]:
    spent = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        spent.append((time.perf_counter() - began) * 1e3)
    return spent


def _printed(name: str, spent: list[float], what: str) -> Figure:
    words = f"ms, median of {len(spent)}, {min(spent):.2f} to {max(spent):.2f}; {what}"
    return Figure(name, round(statistics.median(spent), 3), words, "printed", True)
