"""The releases service: rollouts, devices, kill switch, bundles, audit trail."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Header, Request

from contracts.device import DeviceTags
from contracts.targeting import RuleError, parse
from contracts.targeting.evaluate import holds
from contracts.targeting.facts import facts_of
from contracts.wire import (
    AlertRecord,
    DeviceDetail,
    DeviceList,
    DeviceReport,
    DeviceTrial,
    FleetStanding,
    KillSwitch,
    OperatorAction,
    Rollout,
    RolloutList,
    RolloutState,
    RunningCount,
)
from tests.dashboard.twin.state import EVIL, NEW, NOW, Refusal, Twin, bearer

MOVES = {
    "approve": RolloutState.APPROVED,
    "reject": RolloutState.KILLED,
    "start": RolloutState.RUNNING,
    "pause": RolloutState.PAUSED,
    "resume": RolloutState.RUNNING,
    "rollback": RolloutState.ROLLED_BACK,
}


def releases_routes(twin: Twin) -> APIRouter:
    """The releases service: rollouts, devices, kill switch, bundles, audit trail."""
    router = APIRouter()

    @router.get("/releases/v1/rollouts")
    def rollouts(digest: str = "") -> RolloutList:
        return RolloutList(items=tuple(one for one in twin.rollouts.values() if digest in ("", one.digest)))

    @router.get("/releases/v1/standing")
    def standing() -> FleetStanding:
        counted = Counter((one.running_digest, one.device_class) for one in twin.devices)
        named = {one.digest: one.release_version for one in (*twin.builds.values(), *twin.rollouts.values())}
        running = tuple(
            RunningCount(digest=digest, version=named.get(digest, ""), device_class=name, devices=count)
            for (digest, name), count in counted.most_common()
        )
        alerts = tuple(AlertRecord.model_validate(one) for one in twin.alerts)
        return FleetStanding(running=running, killed=twin.killed, kill_reason="smoke", alerts=alerts)

    @router.get("/releases/v1/rollouts/{rollout_id}")
    def rollout(rollout_id: str) -> Rollout:
        if rollout_id not in twin.rollouts:
            raise Refusal(404, f"rollout {rollout_id} is unknown")
        return twin.rollouts[rollout_id]

    @router.post("/releases/v1/rollouts/{rollout_id}/{verb}")
    def move(rollout_id: str, verb: str, action: OperatorAction, if_match: Annotated[str, Header()]) -> Rollout:
        now = twin.rollouts[rollout_id]
        if if_match != f'"{now.version}"':
            raise Refusal(412, "the version moved on")
        twin.sent.append((verb, action.reason))
        change = {"state": MOVES[verb], "version": now.version + 1, "human_actions": now.human_actions + 1}
        twin.rollouts[rollout_id] = now.model_copy(update=change)
        return twin.rollouts[rollout_id]

    @router.post("/releases/v1/kill-switch")
    def kill(switch: KillSwitch, request: Request) -> KillSwitch:
        if not switch.killed and "releases:write" not in twin.scopes(bearer(request)):
            raise Refusal(403, "allowing the fleet again needs the scope releases:write")
        twin.sent.append(("kill", switch.reason))
        twin.killed = switch.killed
        return switch

    @router.get("/releases/v1/kill-switch")
    def kill_state() -> dict[str, object]:
        return {"killed": twin.killed, "reason": "smoke", "state_epoch": 3}

    @router.get("/releases/v1/alerts")
    def alerts() -> dict[str, object]:
        return {"items": twin.alerts, "next_cursor": None}

    @router.get("/releases/v1/devices")
    def devices(
        limit: int, cursor: int = 0, q: str = "", device_class: str = "", running: str = "", rule: str = ""
    ) -> DeviceList:
        try:
            wanted_by_rule = parse(rule) if rule else None
        except RuleError as error:
            raise Refusal(422, f"rule, {error}") from error
        wanted = [
            device
            for device in twin.devices
            if device.id.startswith(q)
            and device_class in ("", device.device_class)
            and device.running_digest.startswith(running)
            and (
                wanted_by_rule is None or holds(wanted_by_rule, facts_of(DeviceTags(device_class=device.device_class)))
            )
        ]
        if rule and not wanted and cursor == 0:
            return DeviceList(items=(), next_cursor="1")
        end = cursor + limit
        return DeviceList(items=tuple(wanted[cursor:end]), next_cursor=str(end) if end < len(wanted) else None)

    @router.get("/releases/v1/devices/{device_id}")
    def device(device_id: str) -> DeviceDetail:
        known = next((device for device in twin.devices if device.id == device_id), None)
        if known is None:
            raise Refusal(404, f"no device {device_id} has joined")
        trial = DeviceTrial(
            rollout_id="r-2",
            release_version="2026.11.3",
            digest=NEW,
            slot_stage="confirmed",
            confirmed=True,
            failed=False,
            started=NOW - 9_000,
        )
        report = DeviceReport(item_id="health/1", received=datetime.fromtimestamp(NOW, UTC))
        return DeviceDetail(
            **known.model_dump(), agent_version="0.1.0", enrolled=NOW - 1e6, trials=(trial,), reports=(report,)
        )

    @router.get("/releases/v1/bundles/{digest}")
    def bundle(digest: str) -> dict[str, object]:
        if digest != NEW:
            raise Refusal(404, f"no bundle has the digest {digest[:16]}...; register its build first")
        told = {"run": "run-42", "mlflow_run": "5f0c2f", "gate_report": "/builds/v1/builds/b-3"}
        known = {"digest": digest, "release_version": "2026.11.3", "security_epoch": 1, "length": 912_384}
        place = {"build_id": "b-3", "target_path": f"bundles/{digest}.elb", "created": NOW}
        return {**known, **place, "provenance": {**told, "sources": {"corpus": "d" * 64}}}

    @router.get("/releases/v1/audit")
    def audit(limit: int, cursor: int = 0, actor: str = "", action: str = "", subject: str = "") -> dict[str, object]:
        items = [
            {
                "id": number,
                "at": datetime.fromtimestamp(NOW - 60 * number, UTC).isoformat(),
                "actor": f"operator:{'ada' if number % 2 else 'bo'}",
                "action": "rollout.paused" if number % 3 else "kill-switch.on",
                "subject": "rollout:r-2",
                "detail": {"reason": f"entry {number} {EVIL}", "stage": number},
            }
            for number in range(120)
        ]
        wanted = [
            item
            for item in items
            if actor in ("", item["actor"])
            and str(item["action"]).startswith(action)
            and subject in ("", item["subject"])
        ]
        end = cursor + limit
        return {"items": wanted[cursor:end], "next_cursor": str(end) if end < len(wanted) else None}

    @router.get("/releases/v1/audit/verification")
    def verification() -> dict[str, object]:
        return {"ok": not twin.tampered, "entries": 120, "head": "f" * 64, "fault": twin.tampered}

    return router
