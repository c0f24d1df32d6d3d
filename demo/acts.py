"""First act: the platform learns and releases by itself. Second act: two bad candidates are stopped."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from contracts.bundle import Bundle
from contracts.wire import Build, BuildRequest, BundleRegistration, RolloutRequest
from demo.actors import restart_devices
from demo.candidates import broken_calibration
from demo.driver import Stage
from demo.errors import DemoError
from demo.observe import Json, Sight
from flows.data.corpus import Split
from flows.data.degrade import NORMAL
from flows.data.pairs import View, make_pairs
from flows.retrain import new_key
from flows.run_folder import RunFolder
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.weights import load_net

GATE_ENDED = ("passed", "blocked", "refused", "failed")
ROLLOUT_ENDED = ("completed", "rolled_back", "killed", "paused")


@dataclass(frozen=True)
class FirstAct:
    """What the first act left: the run, its build and rollout, coverage before and after."""

    run: RunFolder
    build: Json
    rollout: Json
    covered_before: float
    covered_after: float

    @property
    def digest(self) -> str:
        """The new production bundle."""
        return str(self.build["digest"])

    def float_net(self) -> VsrNet:
        """The float network behind the new model."""
        return load_net(self.run.read("float.npz"))


def first_act(stage: Stage, alarmed: Sight) -> FirstAct:
    """Watch the flow retrain, the gate judge and the rollout finish."""
    alarm = next(alarm for alarm in alarmed.alarms if alarm["action"] == "retrain")
    key = new_key(str(alarm["id"]))
    folder = stage.ground.root / "runs" / key
    limit = 60 * (stage.settings.budget_minutes + 6)
    with stage.phase("retrain"):
        stage.wait(f"flow {key} to train and quantise", lambda sight: sight.build(key) or _failed(sight), limit)
    with stage.phase("gate"):
        sight = stage.wait("the gate", lambda now: (now.build(key) or {}).get("state") in GATE_ENDED, 5 * 60)
    build = sight.build(key) or {}
    if build.get("state") != "passed":
        raise DemoError(f"the retrained model did not pass: {build.get('state')} {_reasons(build)}")
    stage.board.names[str(build["digest"])] = "v2 (retrained)"
    stage.pace.want(stage.settings.release_factor)
    with stage.phase("rollout"):
        sight = stage.wait("the rollout to start", lambda now: now.rollout(str(build["digest"])), 2 * 60)
        sight = stage.wait("the rollout to finish", lambda now: _state(now, build) in ROLLOUT_ENDED, 5 * 60)
        if _state(sight, build) != "completed":
            raise DemoError(
                f"the rollout ended {_state(sight, build)}: {(sight.rollout(str(build['digest'])) or {}).get('cause')}"
            )
        stage.wait("every device to confirm", lambda now: _all_on(stage, now, str(build["digest"])), 2 * 60)
    run = RunFolder(folder)
    hard = run.read_json("hard_set.json")
    sight = stage.wait(
        "coverage to be measured anew",
        lambda now: _share(now, "after") is not None and _revision(now) == key,
        60,
    )
    stage.story.learning = {
        name: run.read_json(f"{name}.json") for name in ("study", "search", "prove") if run.has(f"{name}.json")
    }
    before, after = _share(sight, "before"), _share(sight, "after")
    return FirstAct(
        run,
        build,
        sight.rollout(str(build["digest"])) or {},
        before if before is not None else float(hard["coverage_before"]),
        after or 0.0,
    )


def broken_candidate(stage: Stage, act: FirstAct) -> bool:
    """Post a candidate with a broken calibration; True when the gate blocks it."""
    with stage.phase("act 2: broken candidate"):
        clips = stage.corpus.of(Split.TRAIN)[:2]
        pairs = make_pairs(clips, [NORMAL], (View(scale=2, limit=6, crop=(192, 192)),))
        build = _post(stage, act, "broken-calibration", broken_calibration(act.float_net(), pairs), "3-broken")
        ended = stage.wait("the gate to judge it", lambda now: _ended(now, build.name), 3 * 60).build(build.name) or {}
        stage.story.notes.append(f"Broken calibration: {ended['state']}. {_reasons(ended)[:300]}")
        return bool(ended["state"] == "blocked")


def misbehaving_candidate(stage: Stage, act: FirstAct) -> bool:
    """Release a build that the gate passes and one class's driver does not; True when the field rolls it back.

    Between gate and release the devices of that class get an older driver, as after a system update: they restart, and
    the driver fails on this very build.
    """
    with stage.phase("act 2: misbehaving candidate"):
        build = _post(stage, act, "experimental-kernels", act.run.read("model.onnx"), "3-experimental")
        ended = stage.wait("the gate to judge it", lambda now: _ended(now, build.name), 3 * 60).build(build.name) or {}
        if ended["state"] != "passed":
            told = f"Experimental kernels did not reach the field: {ended['state']}. {_reasons(ended)[:300]}"
            stage.story.notes.append(told)
            return False
        _give_an_older_driver(stage, build.id)
        digest = str(ended["digest"])
        stage.board.names[digest] = "v3 (experimental)"
        stage.platform.register_bundle(BundleRegistration(build_id=build.id, notes="experimental kernel set"))
        request = RolloutRequest(
            digest=digest, soak_s=3_600.0 * stage.settings.soak_hours, min_devices=stage.settings.min_devices,
            auto_start=True, reason="experimental kernel set",
        )  # fmt: skip
        stage.platform.start_rollout(request, f"rollout-{build.id}")
        sight = stage.wait("the field to judge it", lambda now: _state(now, ended) in ROLLOUT_ENDED, 4 * 60)
        rollout = sight.rollout(digest) or {}
        stage.story.notes.append(
            f"Experimental kernels: rollout {rollout.get('state')}. {rollout.get('cause', '')[:300]}"
        )
        stage.wait("every device to be back on the good bundle", lambda now: _all_on(stage, now, act.digest), 2 * 60)
        return rollout.get("state") == "rolled_back"


def _give_an_older_driver(stage: Stage, build_id: str) -> None:
    bundle = stage.folder / "experimental.elb"
    bundle.write_bytes(stage.platform.bundle(build_id))
    assert stage.world is not None
    stage.unverified_before += stage.unverified_bytes()
    restart_devices(stage.actors, replace(stage.world, choking_build=Bundle.open(bundle).manifest.build_id))
    stage.wait("the devices to be back", lambda sight: sight.fleet.get("joined") == sight.fleet.get("devices"), 90)


def _post(stage: Stage, act: FirstAct, name: str, model: bytes, version: str) -> Build:
    generation = stage.ground.root / "models" / act.run.path.name
    sets = [found for found in stage.platform.evaluation_sets() if found.name.startswith(act.run.path.name)]
    proved = act.run.read_json("prove.json")
    request = BuildRequest(
        name=name,
        release_version=version,
        profiles=stage.profiles,
        evaluation_sets=tuple(found.id for found in sets),
        parent_build=str(act.build["id"]),
        float_psnr={found.name: float(proved[found.name]["float_psnr_rgb"]) for found in sets if found.name in proved},
        lineage={"made_by": "demo"},
    )
    quality, observer = (generation / "quality.onnx").read_bytes(), (generation / "observer.npz").read_bytes()
    return stage.platform.post_build(request, model, quality, observer, f"demo-{name}")


def _ended(sight: Sight, name: str) -> bool:
    return (sight.build(name) or {}).get("state") in GATE_ENDED


def _state(sight: Sight, build: Json) -> str:
    return str((sight.rollout(str(build["digest"])) or {}).get("state", ""))


def _failed(sight: Sight) -> bool:
    if sight.flow in ("Failed", "Crashed"):
        raise DemoError("flow `retrain` failed; see the log of the child `flows`")
    return False


def _all_on(stage: Stage, sight: Sight, digest: str) -> bool:
    light = sight.fleet.get("by_bundle", {})
    if light.get(digest, 0) != sight.fleet.get("devices", -1):
        return False
    stages = sight.fleet.get("by_stage", {})
    devices = stage.observer.devices()
    return not stages.get("trial") and all(device["running_digest"] == digest for device in devices)


def _share(sight: Sight, when: str) -> float | None:
    found = sight.coverage.get(when)
    return float(found["share"]) if found else None


def _revision(sight: Sight) -> str:
    return str((sight.coverage.get("after") or {}).get("revision", ""))


def _reasons(build: Json) -> str:
    verdict = build.get("verdict") or {}
    return "; ".join(verdict.get("reasons") or []) or json.dumps(build.get("message", ""))
