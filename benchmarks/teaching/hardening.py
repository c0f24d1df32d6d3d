"""Fourth stage: the loop's own step, retraining on a hard condition, judged on a person that nothing was trained on.

The condition is the product's `HARD`: low light, sensor noise, x264 at a quarter of the healthy rate, dropped and lost
packets; the normal one is a healthy x264 call. The old network is the production seed, trained on the same scenes in
healthy calls, so that what is gained is the condition and not the scenes. Held-out conditions are other draws of noise
and loss.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from benchmarks.teaching.budgets import budgets
from benchmarks.teaching.eta import Tell, part
from benchmarks.teaching.judging import judged
from benchmarks.teaching.kept import CHECKOUT, Json, kept
from benchmarks.teaching.material import Scene, judged_scenes, training_scenes
from benchmarks.teaching.sharing import DAYS
from flows.data.degrade import HARD, HARD_VARIETY, NORMAL, NORMAL_VARIETY, Degradation, degrade
from flows.data.pairs import Pair, PairSet
from flows.steps.learn import FINETUNE
from flows.tasks.training import Budget
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.perception import Perception
from flows.tasks.vsr.train import finetune
from flows.tasks.vsr.weights import load_net, save_net

ASKED = Perception(temporal=0.2)
RETRAIN = replace(FINETUNE, batch=32, hard_share=1 / 16)
"""The stand-ins are as hard as the field here: with a quarter of hard patches healthy calls lost 0.15 dB, with an
eighth 0.03 to 0.06. A batch is 16 clips, so that a sixteenth is one of them.
"""

JUDGE_SEED = 900
_SEED_MODEL = CHECKOUT / "seeds" / "v1.npz"
_FRAMES = 14
_CODE = (
    "benchmarks/teaching/hardening.py", "benchmarks/teaching/material.py", "flows/data/codec.py",
    "flows/data/degrade.py", "flows/data/pairs.py", "flows/perceptual/flicker.py", "flows/tasks/batches.py",
    "flows/tasks/training.py", "flows/tasks/vsr/net.py", "flows/tasks/vsr/perception.py", "flows/tasks/vsr/train.py",
)  # fmt: skip


def hardened(seed: int, tell: Tell | None = None) -> Json:
    """Judgement of old and retrained network on both conditions."""
    spent = budgets()
    at = kept(
        "hard",
        seed,
        {"old": spent.old, "retrained": spent.retrained, "tuning": repr(RETRAIN), "asked": repr(ASKED)},
        _CODE,
    )
    if at.result is not None:
        return at.result
    old, new = at.folder / "old.npz", at.folder / "new.npz"
    for path, start, share, seconds, told in (
        (old, _SEED_MODEL, 0.0, spent.old, part(tell, 0.05, 0.35, "old network")),
        (new, old, RETRAIN.hard_share, spent.retrained, part(tell, 0.35, 0.9, "retrained network")),
    ):
        if not path.is_file():
            settings = replace(RETRAIN, hard_share=share, seed=seed, perception=ASKED if share else RETRAIN.perception)
            checkpoint = path.with_suffix(".checkpoint")
            net = finetune(
                load_net(start.read_bytes()), normal_pairs(), hard_pairs(),
                Budget(seconds=seconds, wall_seconds=DAYS), settings=settings, progress=told, checkpoint=checkpoint,
            )  # fmt: skip
            path.write_bytes(save_net(net))
            checkpoint.unlink(missing_ok=True)
    return at.finish({path.stem: both(load_net(path.read_bytes())) for path in (old, new)})


def both(net: VsrNet) -> dict[str, dict[str, float]]:
    """Judgement of a network on the held-out person in a healthy and in a hard call."""
    net.eval()
    return {name: judged(net, pairs).to_dict() for name, pairs in judged_calls().items()}


@lru_cache(maxsize=1)
def normal_pairs() -> PairSet:
    """Training scenes in healthy calls."""
    return calls(training_scenes(), NORMAL_VARIETY[1:4:2])


@lru_cache(maxsize=1)
def hard_pairs() -> PairSet:
    """Training scenes in hard calls, one of three strengths each."""
    strengths = [(scene, HARD_VARIETY[index % 3].with_seed(index)) for index, scene in enumerate(training_scenes())]
    return PairSet(tuple(_call(scene, strength) for scene, strength in strengths))


@lru_cache(maxsize=1)
def judged_calls() -> dict[str, PairSet]:
    """The held-out person: `normal` and `hard`."""
    people = judged_scenes()["person"]
    return {
        "normal": calls(people, (NORMAL.with_seed(JUDGE_SEED),)),
        "hard": calls(people, (HARD.with_seed(JUDGE_SEED),)),
    }


def calls(scenes: tuple[Scene, ...], conditions: tuple[Degradation, ...]) -> PairSet:
    """Every scene under every condition, through the real codec."""
    return PairSet(tuple(_call(scene, condition) for scene in scenes for condition in conditions))


def _call(scene: Scene, condition: Degradation) -> Pair:
    low, high = degrade(scene.high[:_FRAMES], condition, scene.fps)
    return Pair(scene.name, condition, low, high)
