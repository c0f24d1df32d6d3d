"""`python -m flows.seed`: makes the committed seed models from the training side of the default corpus.

Writes v1.onnx (INT8 of the hand-made network) and v1.npz (its float weights), supernet.npz, quality.onnx,
observer.npz and seed.json (figures on held-out clips, corpus hash, versions, the command). The super-resolution
networks see healthy calls only: the hard condition is what the loop has to learn. Each part may be made alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch

from flows.data.corpus import Corpus, Split, default_corpus
from flows.data.intake.manifest import open_corpus
from flows.data.pairs import PairSet
from flows.limits import LIMITS
from flows.quality.build import build_quality
from flows.quant.qat import qat
from flows.tasks.training import Budget, Progress
from flows.tasks.vsr.architecture import DEFAULT_SPACE, HAND_MADE, Architecture, Stage
from flows.tasks.vsr.material import judge_sets, normal_pairs
from flows.tasks.vsr.metrics import as_upscaler, evaluate
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.supernet import load_supernet, save_supernet
from flows.tasks.vsr.train import TrainSettings, train_net, train_supernet
from flows.tasks.vsr.weights import load_net, save_net

PARTS = ("v1", "supernet", "quality")
_SHARES = {"v1": 0.34, "v1_qat": 0.06, "supernet": 0.38, "quality": 0.22}
_SETTINGS = TrainSettings(batch=16, patch=32, rate=2.5e-3)
_SUPERNET = TrainSettings(batch=16, patch=32, rate=1.2e-3)
_THREE = Architecture(HAND_MADE.trunk, (Stage(1, 32), Stage(1, 32), Stage(1, 32)))


class SeedError(Exception):
    """The seeds cannot be made, or came out too large to commit."""


@dataclass(frozen=True)
class SeedPlan:
    """Where seeds go, how many CPU minutes all training together may take, which parts are made."""

    out: Path
    minutes: float
    parts: tuple[str, ...] = PARTS
    corpus: Path | None = None


def make_seeds(plan: SeedPlan, progress: Progress | None = None) -> dict[str, object]:
    """Make the parts of the plan; returns what seed.json holds."""
    corpus = open_corpus(plan.corpus) if plan.corpus else default_corpus()
    plan.out.mkdir(parents=True, exist_ok=True)
    figures = _earlier_figures(plan.out)
    normal = normal_pairs(corpus) if {"v1", "supernet"} & set(plan.parts) else None
    if "v1" in plan.parts and normal is not None:
        figures["v1"] = _make_v1(plan, corpus, normal, progress)
    if "supernet" in plan.parts and normal is not None:
        figures["supernet"] = _make_supernet(plan, corpus, normal, progress)
    if "quality" in plan.parts:
        figures["quality"] = _make_quality(plan, corpus, progress)
    described = _describe(plan, corpus, figures)
    _write(plan.out / "seed.json", (json.dumps(described, indent=1, sort_keys=True) + "\n").encode())
    total = sum(path.stat().st_size for path in plan.out.iterdir() if path.is_file())
    if total > LIMITS.max_seed_bytes:
        raise SeedError(f"{plan.out}: seeds take {total} bytes, limit {LIMITS.max_seed_bytes}; narrow the supernet")
    return described


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of `python -m flows.seed`."""
    parser = argparse.ArgumentParser(prog="python -m flows.seed", description="make the seed models")
    parser.add_argument("--out", type=Path, default=Path("seeds"))
    parser.add_argument("--budget-minutes", type=float, default=20.0)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--corpus", type=Path)
    given = parser.parse_args(arguments)
    parts = tuple(given.parts.split(","))
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    started = time.monotonic()

    def show(share: float, what: str) -> None:
        sys.stderr.write(f"\r{share:5.0%}  {time.monotonic() - started:6.0f} s  {what:<60}")
        sys.stderr.flush()

    made = make_seeds(SeedPlan(given.out, given.budget_minutes, parts, given.corpus), show)
    sys.stdout.write(json.dumps(made, indent=1, sort_keys=True) + "\n")
    return 0


def _make_v1(plan: SeedPlan, corpus: Corpus, normal: PairSet, progress: Progress | None) -> dict[str, float]:
    net = train_net(HAND_MADE, normal, _budget(plan, "v1"), settings=_SETTINGS, progress=progress)
    _write(plan.out / "v1.npz", save_net(net))
    quantised = qat(net, normal, None, _budget(plan, "v1_qat"), progress=progress)
    _write(plan.out / "v1.onnx", quantised.model)
    judge = judge_sets(corpus)
    figures = {"max_lsb": float(quantised.agreement.max_lsb), "lsb_share": quantised.agreement.share}
    for name, pairs in judge.items():
        whole, int8 = evaluate(net, pairs), evaluate(quantised.model, pairs)
        figures[f"{name} psnr_y int8"] = round(int8.psnr_y, 3)
        figures[f"{name} psnr_y drop"] = round(whole.psnr_y - int8.psnr_y, 3)
    return figures


def _make_supernet(plan: SeedPlan, corpus: Corpus, normal: PairSet, progress: Progress | None) -> dict[str, float]:
    v1 = _read_v1(plan.out)
    supernet = train_supernet(normal, _budget(plan, "supernet"), parent=v1, settings=_SUPERNET, progress=progress)
    path = plan.out / "supernet.npz"
    save_supernet(supernet, path)
    if path.stat().st_size > LIMITS.max_supernet_bytes:
        raise SeedError(f"{path} has {path.stat().st_size} bytes, limit {LIMITS.max_supernet_bytes}")
    stored, judge = load_supernet(path), judge_sets(corpus)["carphone_pristine normal"]
    return {
        "largest": round(evaluate(stored.extract(DEFAULT_SPACE.largest), judge).psnr_y, 3),
        "hand-made": round(evaluate(stored.extract(HAND_MADE), judge).psnr_y, 3),
        "three wide blocks": round(evaluate(stored.extract(_THREE), judge).psnr_y, 3),
        "smallest": round(evaluate(stored.extract(DEFAULT_SPACE.smallest), judge).psnr_y, 3),
    }


def _make_quality(plan: SeedPlan, corpus: Corpus, progress: Progress | None) -> dict[str, float]:
    built = build_quality(
        corpus.of(Split.TRAIN), as_upscaler(_read_v1(plan.out)), _budget(plan, "quality"), progress=progress
    )
    _write(plan.out / "quality.onnx", built.model)
    _write(plan.out / "observer.npz", built.observer.to_bytes())
    return {name: round(value, 5) for name, value in built.figures.items()}


def _read_v1(out: Path) -> VsrNet:
    path = out / "v1.npz"
    if not path.exists():
        raise SeedError(f"{path} is missing; make the part v1 first, the other parts start from it")
    return load_net(path.read_bytes())


def _budget(plan: SeedPlan, part: str) -> Budget:
    return Budget(seconds=60.0 * plan.minutes * _SHARES[part])


def _describe(plan: SeedPlan, corpus: Corpus, figures: dict[str, object]) -> dict[str, object]:
    return {
        "command": f"python -m flows.seed --out seeds --budget-minutes {plan.minutes:g}",
        "corpus": json.loads(corpus.manifest()),
        "corpus_sha256": corpus.digest(),
        "architecture": json.loads(HAND_MADE.to_json()),
        "space": asdict(DEFAULT_SPACE),
        "figures": figures,
        "versions": {"torch": torch.__version__, "onnxruntime": ort.__version__, "numpy": np.__version__},
    }


def _earlier_figures(out: Path) -> dict[str, object]:
    path = out / "seed.json"
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text())["figures"])
    except (ValueError, KeyError, TypeError) as error:
        raise SeedError(f"{path} cannot be read ({error}); remove it and make all parts") from error


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(path.suffix + ".part")
    temporary.write_bytes(data)
    temporary.replace(path)


if __name__ == "__main__":
    raise SystemExit(main())
