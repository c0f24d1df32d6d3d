"""Steps that a run has only when it is asked for a smaller network: cut channels of the trained one, then recover.

`train` spends `KEPT_SHARE` of the fine-tuning budget on the network that the search chose (`flows.steps.budget`),
`prune` takes whole channels away until it costs the asked share of what it did, `recover` spends the rest. Both steps
leave their network, so a killed run cuts and recovers once.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace

from flows.data.pairs import PairSet
from flows.errors import FlowError
from flows.run_folder import Json
from flows.search.prune import RECOVERY, Cost, Cut, cut
from flows.search.table import OperatorTable
from flows.steps.budget import RECOVER_CHECKPOINT, Training, budget_of, require_an_epoch
from flows.steps.context import RECOVERED, RunContext
from flows.steps.hard import TrainingPairs
from flows.steps.learn import FINETUNE, on_clips
from flows.tasks.vsr.architecture import Architecture, Space

PRUNED = "pruned.npz"
STEPS = ("prune", "recover")
SETTINGS = replace(FINETUNE, rate=RECOVERY.rate)


def check_prunable(run: RunContext, searched: Json) -> None:
    """Raises FlowError, before anything is trained, when the narrowest form of the chosen network is too large yet."""
    asked, chosen = run.settings.prune, Architecture.from_json(searched["chosen"])
    if asked is None:
        return
    mids = run.task.load_supernet(run.folder.path / "supernet.npz").space.mids
    stages = tuple(replace(stage, mid=min(min(mids), stage.mid)) for stage in chosen.stages)
    least = _costs(run, chosen)[run.settings.prune_by](replace(chosen, stages=stages))
    if least > asked:
        raise FlowError(
            f"--prune {asked:g}: the chosen network has {least:.2f} of its {run.settings.prune_by} when every block is "
            f"{min(mids)} channels wide, the narrowest that there is; begin a new run with --prune "
            f"{math.ceil(100 * least) / 100:g} or more"
        )


def prune(run: RunContext, pairs: TrainingPairs, trained: Json) -> Json:
    """Narrow the trained network where it is missed least; what is left is `pruned.npz`."""
    assert run.settings.prune is not None
    whole = Architecture.from_json(trained["architecture"])
    space: Space = run.task.load_supernet(run.folder.path / "supernet.npz").space
    costs = _costs(run, whole)
    run.progress("pruning: where channels are missed least", 0.1)
    found = cut(
        run.task.load(run.folder.read("float.npz")), whole, space.mids, costs[run.settings.prune_by],
        run.settings.prune, _judge(pairs), task=run.task,
    )  # fmt: skip
    run.folder.write(PRUNED, run.task.save(found.net))
    asked = {"asked": run.settings.prune, "by": run.settings.prune_by}
    return {**asked, "quality": run.task.quality_name, "unit": run.task.quality_unit, **_told(found, costs)}


def recover(run: RunContext, pairs: TrainingPairs, pruned: Json) -> Json:
    """Win back in the rest of the fine-tuning budget what the cut cost; the network is `recovered.npz`."""
    net = run.task.load(run.folder.read(PRUNED))
    run.task.finetune(
        net, pairs.normal, pairs.hard, budget_of(run, Training.RECOVER),
        settings=on_clips(replace(SETTINGS, seed=run.settings.seed, perception=run.settings.perception), net),
        progress=lambda share, what: run.progress(f"recovering: {what}", share),
        checkpoint=run.folder.path / RECOVER_CHECKPOINT,
    )  # fmt: skip
    steps = require_an_epoch(run, Training.RECOVER, pairs.normal, SETTINGS)
    run.folder.write(RECOVERED, run.task.save(net))
    return {
        "steps": steps,
        "architecture": pruned["architecture"],
        "recovered": run.task.evaluate(net, _judge(pairs)).quality,
        "normal_validation": run.task.evaluate(net, pairs.normal_validation).quality,
        "hard_validation": run.task.evaluate(net, pairs.hard_validation).quality,
    }


def pruning_sheet(pruned: Json, recovered: Json) -> Json:
    """Both steps in one table for the reports: what was asked, what is left, quality on the way, and the way."""
    kept = ("asked", "by", "latency_ratio", "parameters_ratio", "before", "cut", "narrowings", "quality", "unit")
    return {
        **{name: pruned[name] for name in kept},
        "recovered": recovered["recovered"],
        "recovery_steps": recovered["steps"],
        "units": f"{pruned['unit']} on the pairs set aside for validation; ratios to the chosen network",
    }


def pruning_text(sheet: Json) -> str:
    """The sheet as one sentence."""
    before, cut, after = (f"{sheet[name]:.2f} {sheet['unit']}" for name in ("before", "cut", "recovered"))
    return (
        f"Pruned to {sheet['latency_ratio']:.2f} of the chosen network's predicted latency and "
        f"{sheet['parameters_ratio']:.2f} of its parameters (asked: {sheet['asked']:g} by {sheet['by']}) in "
        f"{len(sheet['narrowings'])} narrowings: {before} before, {cut} cut, {after} after "
        f"{sheet['recovery_steps']} steps of recovery."
    )


def _told(found: Cut, costs: dict[str, Cost]) -> Json:
    return {
        "architecture": found.architecture.to_json(),
        **{f"{name}_ratio": cost(found.architecture) for name, cost in costs.items()},
        "before": found.before,
        "cut": found.quality,
        "taken": len(found.steps),
        "narrowings": [asdict(step) for step in found.steps],
    }


def _costs(run: RunContext, whole: Architecture) -> dict[str, Cost]:
    """Every cost that may be cut, as a share of the whole network's.

    Latency is that of the frame size that takes each target longest, on the target that gains least: in small frames
    launches are most of the time, and no width changes them.
    """
    table = OperatorTable.from_json(run.folder.read("operator_table.json").decode())
    times = {(row.target, row.profile): table.latency_us(whole, row.target, row.profile) for row in table.rows}
    targets = sorted({target for target, _ in times})
    slowest = [max((pair for pair in times if pair[0] == target), key=times.__getitem__) for target in targets]
    return {
        "latency": lambda one: max(table.latency_us(one, *pair) / times[pair] for pair in slowest),
        "parameters": lambda one: run.task.parameters(one) / run.task.parameters(whole),
    }


def _judge(pairs: TrainingPairs) -> PairSet:
    return PairSet((*pairs.normal_validation.pairs, *pairs.hard_validation.pairs))
