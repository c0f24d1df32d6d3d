"""`python -m benchmarks.updating.retrain [short|long]`: makes the retrained networks that the delta figures are about.

The committed seed network `seeds/v1.npz` learns hard conditions with the loop's own fine-tuning and quantisation-aware
training, a fixed number of steps at a fixed seed, on one thread, on a few scenes of the default corpus so that a turn
takes seconds. A turn of the loop in the field trains on more scenes and for longer; its architecture search may also
change shapes, and then a delta does not win and the whole bundle is sent, which the bench shows too.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from flows.data.corpus import Split, default_corpus
from flows.data.degrade import HARD_VARIETY, NORMAL_VARIETY
from flows.data.pairs import View, make_pairs
from flows.quant.qat import qat
from flows.tasks.training import Budget
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


TURNS = (Turn("short", 20, 10), Turn("long", 300, 80))
SCENES = 3
VIEWS = (View(2, 4, 12), View(4, 4, 12))


def main(names: list[str]) -> int:
    """Make the turns of these names, or all; writes data/<name>.onnx and data/made.json."""
    DATA.mkdir(exist_ok=True)
    scenes = default_corpus().of(Split.TRAIN)[:SCENES]
    normal, hard = make_pairs(scenes, NORMAL_VARIETY[:1], VIEWS), make_pairs(scenes, HARD_VARIETY[:2], VIEWS)
    path = DATA / "made.json"
    made = json.loads(path.read_text()) if path.exists() else {}
    for turn in (turn for turn in TURNS if not names or turn.name in names):
        began = time.process_time()
        net = load_net((ROOT / "seeds" / "v1.npz").read_bytes())
        finetune(net, normal, hard, Budget(steps=turn.tune_steps))
        quantised = qat(net, normal, hard, Budget(steps=turn.quantise_steps))
        (DATA / f"{turn.name}.onnx").write_bytes(quantised.model)
        made[turn.name] = {
            "from": "seeds/v1.npz",
            "scenes": [scene.id for scene in scenes],
            "tune_steps": turn.tune_steps,
            "quantise_steps": turn.quantise_steps,
            "cpu_s": round(time.process_time() - began, 1),
            "max_lsb": quantised.agreement.max_lsb,
        }
        sys.stderr.write(f"{turn.name}: {made[turn.name]}\n")
    path.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
