"""`python -m benchmarks.updating.retrain`: makes the retrained networks that the delta figures are about.

The committed seed network `seeds/v1.npz` learns hard conditions of the default corpus with the loop's own fine-tuning
and quantisation-aware training, a fixed number of steps at a fixed seed, on one thread. Two lengths are made: a short
turn of the loop and a longer one. Architecture search is left out: it may change shapes, and then a delta does not win
and the whole bundle is sent, which the bench shows with a network of another shape.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from flows.data.corpus import default_corpus
from flows.quant.qat import qat
from flows.tasks.training import Budget
from flows.tasks.vsr.material import hard_pairs, normal_pairs
from flows.tasks.vsr.train import finetune
from flows.tasks.vsr.weights import load_net

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).with_name("data")


@dataclass(frozen=True)
class Turn:
    """How long a turn of the loop trains."""

    name: str
    tune_steps: int
    quantise_steps: int


TURNS = (Turn("short", 40, 20), Turn("long", 160, 60))


def main() -> int:
    """Make every turn; writes data/<name>.onnx and data/made.json."""
    DATA.mkdir(exist_ok=True)
    corpus = default_corpus()
    began = time.process_time()
    normal, hard = normal_pairs(corpus), hard_pairs(corpus)
    made: dict[str, object] = {"pairs_cpu_s": round(time.process_time() - began, 1)}
    for turn in TURNS:
        began = time.process_time()
        net = load_net((ROOT / "seeds" / "v1.npz").read_bytes())
        finetune(net, normal, hard, Budget(steps=turn.tune_steps))
        quantised = qat(net, normal, hard, Budget(steps=turn.quantise_steps))
        (DATA / f"{turn.name}.onnx").write_bytes(quantised.model)
        made[turn.name] = {
            "from": "seeds/v1.npz",
            "tune_steps": turn.tune_steps,
            "quantise_steps": turn.quantise_steps,
            "cpu_s": round(time.process_time() - began, 1),
            "max_lsb": quantised.agreement.max_lsb,
        }
        sys.stderr.write(f"{turn.name}: {made[turn.name]}\n")
    (DATA / "made.json").write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
