"""The committed seed networks as a bundle, compiled here and now."""

from __future__ import annotations

from pathlib import Path

from compiler.driver import compile_bundle

ROOT = Path(__file__).resolve().parents[2]
SEEDS = ROOT / "seeds"
SIZES = [(72, 88), (144, 176)]


def seed_bundle(out: Path, model: Path = SEEDS / "v1.onnx", version: str = "1.0.0", epoch: int = 1) -> Path:
    """Compile `model` with the seed quality net for both device classes; returns `out`."""
    quality, observer = (SEEDS / "quality.onnx").read_bytes(), (SEEDS / "observer.npz").read_bytes()
    compile_bundle(model.read_bytes(), quality, observer, ["npu-4t", "npu-2t"], SIZES, {}, out, version, epoch)
    return out
