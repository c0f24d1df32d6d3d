"""Second step: stand-ins for the hard clusters, and the pairs that training draws from."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass

import numpy as np

from flows.data.corpus import Clip, Split
from flows.data.degrade import NORMAL_VARIETY, Degradation
from flows.data.errors import CorpusError
from flows.data.pair_store import load_pairs, save_pairs
from flows.data.pairs import Pair, Pairing, PairSet, View, load_view, make_pairs
from flows.data.texture import textured
from flows.embedder import SegmentEmbedder
from flows.errors import FlowError, StorageError
from flows.hardset import HardSet, Landed, build_hard_set, training_vectors
from flows.run_folder import Json
from flows.steps.collect import target_clusters
from flows.steps.context import RunContext
from flows.steps.harm import HARM_DB, measured_harm
from flows.steps.parent import parent_network
from flows.tasks.task import Task
from flows.tasks.training import one_thread
from flows.tasks.vsr.material import HARD_VIEWS, NORMAL_VIEWS

NORMAL_CONDITIONS = NORMAL_VARIETY[::2]
MAX_CONDITIONS = 10
PREPARED = "pairs.bin"
TRAINING_VIEWS = HARD_VIEWS[1:3]
VALIDATION_SEED = 1_000
TEXTURE_VIEWS = (View(1, 8, 8, (480, 640)), View(2, 6, 12), View(3, 6, 12))
TEXTURE_LIGHT = (Degradation(crf=20.0), Degradation(crf=23.0), Degradation(gain=0.5, crf=21.0))
VALIDATION_VIEWS = (View(2, 12, 2, (192, 192)), View(4, 12, 2))


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingPairs:
    """Pairs to train on and pairs set aside (same clips, other draws of noise and loss) to choose by."""

    normal: PairSet
    hard: PairSet
    normal_validation: PairSet
    hard_validation: PairSet


def find_hard_set(run: RunContext, collected: Json) -> Json:
    """Search stand-ins for every uncovered cluster; the JSON holds what later steps and people need."""
    embedder = SegmentEmbedder(run.parent.quality)
    present = parent_vectors(run, embedder)
    training = np.concatenate([landed.vectors for landed in present])
    found = build_hard_set(
        target_clusters(collected), run.training_clips, embedder, training, float(collected["eps"]),
        progress=lambda what, share: run.progress(f"hard set: {what}", share),
    )  # fmt: skip
    run.progress("hard set: what each condition costs the model", 0.95)
    clips = {clip.id: clip for clip, _ in run.training_clips}
    looked_at = [(clips[one.clip], one.view, one.degradation) for one in found.stand_ins]
    with one_thread():
        harm = measured_harm(looked_at, run.task.runner(parent_network(run)), run.task.pair)
    return _to_json(found, harm)


def parent_vectors(run: RunContext, embedder: SegmentEmbedder) -> list[Landed]:
    """Where the parent's training set lands: normal conditions, and what earlier runs added."""
    conditions = (*NORMAL_VARIETY, *(Degradation.from_json(text) for text in run.parent.conditions))
    return training_vectors(run.training_clips, conditions, embedder)


def hard_conditions(hard: Json) -> tuple[Degradation, ...]:
    """At most ten distinct conditions of the accepted stand-ins that harm the model, most members reached first.

    A condition harms when it costs `HARM_DB` or more on average over its stand-ins. Where none does, all count.
    """
    weight: dict[Degradation, int] = {}
    harms: dict[Degradation, list[float]] = {}
    for row in hard["stand_ins"]:
        condition = Degradation(**row["degradation"])
        weight[condition] = weight.get(condition, 0) + int(row["reached"])
        harms.setdefault(condition, []).append(float(row.get("harm_db", HARM_DB)))
    harmful = [condition for condition in weight if sum(harms[condition]) >= HARM_DB * len(harms[condition])]
    return tuple(sorted(harmful or weight, key=lambda condition: -weight[condition]))[:MAX_CONDITIONS]


def prepared_pairs(run: RunContext, hard: Json) -> TrainingPairs:
    """Training pairs, from the file that an earlier process of this run left when there is one."""
    path = run.folder.path / PREPARED
    if path.exists():
        try:
            return TrainingPairs(**load_pairs(path))
        except (CorpusError, TypeError) as error:
            _log.warning("%s; the pairs are prepared again", error)
            path.unlink()
    made = training_pairs(run, hard)
    try:
        save_pairs(vars(made), path)
    except StorageError as error:
        _log.warning("%s; should this run be killed, it prepares its pairs again", error)
    return made


def forget_pairs(run: RunContext) -> None:
    """Remove the file of prepared pairs: nothing after quantisation needs it."""
    (run.folder.path / PREPARED).unlink(missing_ok=True)


def training_pairs(run: RunContext, hard: Json) -> TrainingPairs:
    """Decode and degrade. Every training clip is taken through every hard condition, so that content never decides."""
    clips = run.corpus.of(Split.TRAIN)
    conditions = hard_conditions(hard)
    if not conditions:
        raise FlowError(
            f"none of {hard['tried']} (clip, degradation) pairs comes within {hard['eps']:.3f} of a member that the "
            "training set does not reach; add videos of other scenes to the corpus"
        )
    earlier = tuple(Degradation.from_json(text) for text in run.parent.conditions)
    run.progress("degrading clips", 0.2)
    pairing = run.task.pair
    normal = PairSet(
        (*make_pairs(clips, NORMAL_CONDITIONS, NORMAL_VIEWS, pairing).pairs, *_textured_pairs(clips, pairing))
    )
    run.progress("degrading clips", 0.5)
    stressed = make_pairs(clips, (*conditions, *earlier), TRAINING_VIEWS, pairing)
    run.progress("degrading clips", 0.9)
    aside = (conditions[0].with_seed(VALIDATION_SEED),)
    made = TrainingPairs(
        normal,
        stressed,
        make_pairs(clips, NORMAL_CONDITIONS[:1], VALIDATION_VIEWS, pairing),
        make_pairs(clips, aside, VALIDATION_VIEWS, pairing),
    )
    for pairs in vars(made).values():
        check_sizes(run.task, pairs)
    return made


def check_sizes(task: Task, pairs: PairSet) -> None:
    """Raises FlowError when the targets that a task made are not as large as what its networks make."""
    for pair in pairs.pairs:
        given, rows, columns = pair.high.shape[1:3], *pair.low.shape[1:3]
        if tuple(given) != task.output_size(rows, columns):
            raise FlowError(
                f"task {task.name}: its pair() made a target of {given[0]}x{given[1]} for a frame of {rows}x{columns}, "
                f"its output_size() says {task.output_size(rows, columns)}; correct the one that is wrong"
            )


def _textured_pairs(clips: tuple[Clip, ...], pairing: Pairing) -> list[Pair]:
    """Normal calls, in good and in poor light, of scenes with faint texture: detail that is to be kept."""
    pairs = []
    for number, (clip, view) in enumerate((clip, view) for clip in clips for view in TEXTURE_VIEWS):
        high = load_view(clip, view)
        if high is not None:
            scene = textured(high, number)
            pairs += [Pair(clip.id, light, *pairing(scene, light, clip.fps)) for light in TEXTURE_LIGHT]
    return pairs


def _to_json(found: HardSet, harm: dict[tuple[str, Degradation], float]) -> Json:
    return {
        "eps": found.eps,
        "coverage_before": found.coverage_before,
        "coverage_after": found.coverage_after,
        "before": found.before,
        "after": found.after,
        "members": found.members,
        "tried": found.tried,
        "stand_ins": [
            {
                "cluster": s.cluster,
                "clip": s.clip,
                "view": asdict(s.view),
                "degradation": asdict(s.degradation),
                "vectors": s.vectors.tolist(),
                "distance": s.distance,
                "reached": s.reached,
                "harm_db": harm.get((s.clip, s.degradation), HARM_DB),
            }
            for s in found.stand_ins
        ],
    }
