"""What a run was made of, in the words that the tracking server keeps: parameters, tags, data."""

from __future__ import annotations

from flows.run_folder import Json
from flows.steps.begun import PINNED
from flows.steps.context import RunContext
from flows.steps.hard import hard_conditions
from flows.tasks.device import training_device


def described(run: RunContext) -> Json:
    """Parameters of the run as it was begun, and the device that it trains on."""
    begun = run.folder.read_json(PINNED)
    wanted = run.settings
    return {
        **begun,
        "profiles": ",".join(f"{rows}x{columns}" for rows, columns in wanted.profiles),
        "targets": ",".join(wanted.targets),
        "latency_limit": wanted.latency_limit,
        "soak_s": wanted.soak_s,
        "min_devices": wanted.min_devices,
        "auto_release": wanted.auto_release,
        "device": str(training_device()),
    }


def lineage(run: RunContext, collected: Json) -> Json:
    """Cluster ids, corpus, code and parent, and the conditions that the training set gained."""
    begun = run.folder.read_json(PINNED)
    found = run.folder.read_json("hard_set.json")
    return {
        "parent": run.parent.name,
        "corpus": run.corpus.digest(),
        "code": begun["code"],
        "clusters": ",".join(str(row["id"]) for row in collected["clusters"]),
        "members": sum(int(row["members"]) for row in collected["clusters"]),
        "conditions": len(hard_conditions(found)),
        "clips": ",".join(sorted({row["clip"] for row in found["stand_ins"]})),
    }
