"""A twin of the services' read and action routes: what the page is shown, and what it sent, under the test's control.

It answers with the wire models themselves, so a page that works here reads the real contract.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Header, Request
from fastapi.responses import JSONResponse

from contracts.wire import (
    AlarmAction,
    AlertRecord,
    Build,
    BuildList,
    BuildState,
    Cluster,
    ClusterList,
    ClusterMap,
    ClusterPoint,
    Cohort,
    CohortDay,
    CohortList,
    Coverage,
    CoverageState,
    DeviceDetail,
    DeviceList,
    DeviceRecord,
    DeviceReport,
    DeviceTrial,
    DriftAlarm,
    DriftAlarmList,
    DriftStanding,
    DriftState,
    FleetStanding,
    GateCheck,
    GateVerdict,
    KillSwitch,
    MetricInterval,
    MovedDirection,
    OperatorAction,
    Rollout,
    RolloutList,
    RolloutState,
    RunningCount,
    StageProgress,
)

TOKEN = "el_0123456789abcdef_operator-of-the-test"
PASSWORD = "right-password"
READS = frozenset(f"{name}:read" for name in ("telemetry", "curation", "drift", "builds", "releases"))
WRITES = frozenset({"audit:read", "curation:write", "drift:write", "builds:write", "releases:halt"})
SCOPES = {
    "viewer": READS,
    "operator": READS | WRITES,
    "releaser": READS | WRITES | {"releases:write"},
    "admin": READS | WRITES | {"releases:write", "identity:read", "identity:write"},
}
DAY = 20_786
NOW = DAY * 86_400 + 51_000.0
OLD, NEW = "a" * 96, "b" * 96
EVIL = "<script>alert(1)</script>"


@dataclass
class Twin:
    """State of the imagined platform. `down` names prefixes that answer 503."""

    rollouts: dict[str, Rollout] = field(default_factory=dict)
    devices: list[DeviceRecord] = field(default_factory=list)
    days: list[CohortDay] = field(default_factory=list)
    alarms: list[DriftAlarm] = field(default_factory=list)
    clusters: list[Cluster] = field(default_factory=list)
    builds: dict[str, Build] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    sent: list[tuple[str, str]] = field(default_factory=list)
    killed: bool = False
    alerts: list[dict[str, object]] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, str | None] = field(default_factory=dict)
    provider: str | None = None
    tampered: str = ""
    tokens: list[dict[str, object]] = field(default_factory=list)
    thresholds: list[dict[str, object]] = field(default_factory=list)
    opened: int = 0
    flows: list[dict[str, object]] = field(default_factory=list)
    ranges: list[tuple[str, str]] = field(default_factory=list)

    def enter(self, name: str | None) -> dict[str, object]:
        """A new session, of an account or of the bare token."""
        self.opened += 1
        token = f"el_{self.opened:016x}_session-of-the-twin"
        self.sessions[token] = name
        return {"token": token, "name": name or "embedded", "scopes": [], "idle_s": 60, "ends": "2030-01-01T00:00:00Z"}

    def scopes(self, token: str) -> frozenset[str]:
        """What a token opens; nothing for one that is unknown."""
        if token == TOKEN:
            return SCOPES["admin"]
        name = self.sessions.get(token, "")
        return frozenset() if name == "" else SCOPES[self.roles[name] if name else "admin"]


def busy() -> Twin:
    """A platform in the middle of a turn of the loop."""
    twin = Twin(roles={role: role for role in SCOPES})
    twin.devices = [_device(number) for number in range(240)]
    twin.days = [_day(cohort, day) for cohort in COHORTS for day in range(DAY - 9, DAY + 1)]
    twin.alarms = [
        DriftAlarm(
            id="al-1",
            cohorts=("npu-4t/indoor-night", "npu-2t/indoor-night"),
            days=(DAY - 2, DAY - 1),
            z=6.4,
            d=0.92,
            js=0.21,
            residual=-0.12,
            directions=(MovedDirection(axis=4, shift=-0.61, z=-11.0), MovedDirection(axis=9, shift=0.4, z=7.2)),
            quality_fell=True,
            state=DriftState.SEVERE,
            action=AlarmAction.RETRAIN,
            reason="2 of 3 days; flow run started",
            created=NOW - 90_000,
        )
    ]
    twin.clusters = [
        _cluster(0, 184, CoverageState.COVERED),
        _cluster(1, 61, CoverageState.PARTIAL),
        _cluster(2, 17, CoverageState.UNCOVERED),
    ]
    twin.builds = {
        build.id: build
        for build in (
            _build("b-3", "2026.11.3", BuildState.PASSED),
            _broken(),
            _build("b-1", "2026.11.1", BuildState.PASSED, True),
        )
    }
    twin.rollouts = {rollout.id: rollout for rollout in (_rollout("r-2"), _finished("r-1"))}
    twin.flows = [_flow(1, "completed"), _flow(2, "failed"), _flow(3, "running")]
    twin.alerts = [
        {
            "id": 1,
            "kind": "rollout.rolled_back",
            "subject": "rollout:r-0",
            "detail": "stage 5 %: latency p99 harms npu-2t",
            "created": NOW - 3e5,
        }
    ]
    return twin


COHORTS = ("npu-4t/indoor-night", "npu-2t/indoor-night", "npu-4t/office", "npu-2t/office", "npu-4t/street")


def _device(number: int) -> DeviceRecord:
    new = number % 4 == 0
    return DeviceRecord(
        id=f"d-{number}",
        device_class="npu-2t" if number % 3 == 0 else "npu-4t",
        running_digest=NEW if new else OLD,
        slot_stage="confirmed",
        last_seen=NOW,
    )


def _day(cohort: str, day: int) -> CohortDay:
    drifts = "night" in cohort and day >= DAY - 3
    age = day - (DAY - 4)
    sigma = (1.5 * age + (0.8 if "4t" in cohort else 0.2)) if drifts else 0.5 + 0.13 * ((day * 7 + len(cohort)) % 9)
    state = DriftState.SEVERE if sigma > 3.5 else DriftState.STABLE
    return CohortDay(
        cohort=cohort, day=day, devices=48, frames=190_000, state=state, z=sigma, d=sigma / 7, js=sigma / 40
    )


def _cluster(label: int, members: int, state: CoverageState) -> Cluster:
    share = {CoverageState.COVERED: 0.97, CoverageState.PARTIAL: 0.58, CoverageState.UNCOVERED: 0.06}[state]
    coverage = Coverage(
        state=state,
        share=share,
        low=max(0.0, share - 0.09),
        high=min(1.0, share + 0.05),
        members=members,
        covered=int(share * members),
        eps_cov=0.4,
    )
    return Cluster(
        id=f"c-{label}",
        label=label,
        members=members,
        centroid=(0.2 * label, 0.1 * label * label, *(0.0,) * 30),
        medoid=(0.2 * label, *(0.0,) * 31),
        radius=0.5,
        score_mean=2.0,
        cohorts={"npu-4t/indoor-night": members // 2, "npu-2t/indoor-night": members - members // 2},
        coverage=coverage,
    )


def _build(build_id: str, version: str, state: BuildState, production: bool = False) -> Build:
    checks = tuple(
        GateCheck(id=f"latency.p99.model@npu-{n}t/360x640/normal", value=5.9, limit=6.3, unit="ms", ok=True)
        for n in (2, 4)
    )
    return Build(
        id=build_id,
        name="vsr-night",
        state=state,
        release_version=version,
        security_epoch=1,
        digest=NEW,
        size_bytes=912_384,
        production=production,
        verdict=GateVerdict(passed=True, checks=checks),
        created=NOW - 40_000,
        finished=NOW - 39_000,
        lineage={"alarm": "al-1", "mlflow_run": "5f0c2f"},
    )


def _broken() -> Build:
    bad = GateCheck(
        id="quantisation.drop@npu-4t/360x640/normal",
        value=9.31,
        limit=0.15,
        unit="dB",
        ok=False,
        detail=f"INT8 loses 9.310 dB against FP32: the calibration does not fit the activations {EVIL}",
    )
    verdict = GateVerdict(passed=False, checks=(bad,), reasons=(f"{bad.id}: {bad.detail}",))
    made = _build("b-2", "2026.11.2", BuildState.BLOCKED)
    return made.model_copy(
        update={"name": "vsr-broken", "verdict": verdict, "message": "the gate blocked this build: 1 check failed"}
    )


def _flow(number: int, state: str) -> dict[str, object]:
    return {
        "id": f"00000000-0000-0000-0000-{number:012d}",
        "name": f"fast-otter-{number}",
        "state": state,
        "state_name": state.title(),
        "message": "step train failed: disk full" if state == "failed" else "",
        "expected": NOW - 4_000,
        "started": NOW - 3_900,
        "ended": None if state == "running" else NOW - 100,
        "run_s": 3_800.0,
        "runs": 1,
        "alarm": "al-1",
        "tags": ["drift"],
        "retryable": state == "failed",
    }


def _rollout(rollout_id: str) -> Rollout:
    stages = (
        StageProgress(
            basis_points=500, entered=NOW - 20_000, left=NOW - 9_000, targeted=12, installed=12, confirmed=12
        ),
        StageProgress(basis_points=2_500, entered=NOW - 9_000, targeted=60, installed=52, confirmed=47, failed=1),
        StageProgress(basis_points=10_000),
    )
    metrics = (
        MetricInterval(
            metric="latency_p99_ms",
            stratum="npu-4t",
            canary_devices=38,
            control_devices=122,
            estimate=-0.11,
            low=-0.3,
            high=0.09,
            margin=0.3,
            verdict="promote",
            at=NOW,
        ),
        MetricInterval(
            metric="fidelity_lsb",
            stratum="npu-2t",
            canary_devices=20,
            control_devices=60,
            estimate=0.02,
            low=-0.1,
            high=0.15,
            margin=0.25,
            verdict="continue",
            at=NOW,
        ),
    )
    return Rollout(
        id=rollout_id,
        digest=NEW,
        release_version="2026.11.3",
        state=RolloutState.RUNNING,
        stage=1,
        stages=stages,
        verdict="continue",
        version=4,
        metrics=metrics,
        created=NOW - 21_000,
    )


def _finished(rollout_id: str) -> Rollout:
    stages = tuple(
        StageProgress(
            basis_points=points,
            entered=NOW - 9e5,
            left=NOW - 8e5,
            targeted=points // 42,
            installed=points // 42,
            confirmed=points // 42,
        )
        for points in (500, 2_500, 10_000)
    )
    return Rollout(
        id=rollout_id,
        digest=OLD,
        release_version="2026.11.1",
        state=RolloutState.COMPLETED,
        stage=2,
        stages=stages,
        verdict="promote",
        version=9,
        created=NOW - 9e5,
        finished=NOW - 7e5,
    )


def bundle_report(build_id: str, slower: float) -> dict[str, object]:
    """What the builds service tells of a bundle with one program of two sizes."""
    profiles = [
        {
            "number": number,
            "profile": name,
            "input": [1, rows, 640, 3],
            "answers": {"fits": "yes", "limited by": "compute"},
            "commands": 900,
            "launches": 7,
            "dispatches": 90,
            "macs": 12_000_000 * rows,
            "ddr_bytes": 920_000,
            "ddr_intermediate_bytes": 0,
            "sram_peak": 800_000,
            "sram_bytes": 1_048_576,
            "sram_lower_bound": 780_000,
            "latency_ms": {"u85-like": round(0.01 * rows * slower, 6), "ideal": 0.007 * rows},
        }
        for number, (name, rows) in enumerate((("360x640", 360), ("180x640", 180)))
    ]
    placement = [{"name": "conv1", "unit": "NPU", "reason": f"fused {EVIL}", "nodes": ["Conv_0", "Relu_1"]}]
    placement.append({"name": "resize", "unit": "CPU", "reason": "no such operator", "nodes": ["Resize_9"]})
    program = {"program": "model", "target": "npu-4t", "core": "big", "constants_bytes": 40_960, "profiles": profiles}
    edges = [{"producer": "conv1", "consumer": "resize", "reason": "runs on the CPU"}]
    return {
        "build_id": build_id,
        "digest": NEW,
        "size": int(912_384 * slower),
        "release_version": "2026.11.3",
        "security_epoch": 1,
        "pieces": {"npu-4t/model.npu": 700_000, "manifest.json": 2_000},
        "programs": [{**program, "placement": placement, "unfused": edges}],
    }


def frame_report(number: int) -> dict[str, object]:
    """One frame of that bundle: two kernels, three ranges, three lanes."""
    model = {"u85-like": 1_800.0, "ideal": 1_300.0}
    kernels = [
        {
            "kernel": name,
            "microseconds": model,
            "bound_by": {"u85-like": "compute", "ideal": "ddr"},
            "macs": 1_000,
            "ddr_bytes": 0,
            "launches": 1,
            "dispatches": 9,
            "operations": ["CONV"],
        }
        for name in ("conv1", "resize")
    ]
    kinds = (
        ("weights", 0, 40_000, 0.0, 3.6e6),
        ("map", 40_000, 400_000, 0.1e6, 2e6),
        ("ring", 40_000, 90_000, 2e6, 3e6),
    )
    ranges = [
        {"space": "SRAM", "offset": at, "size": size, "begin_ns": start, "end_ns": stop, "kind": kind, "label": kind}
        for kind, at, size, start, stop in kinds
    ]
    lanes = [
        {"name": name, "queue": queue, "busy_ns": 1.5e6, "spans": [[0.0, 1e6], [2e6, 2.5e6]]}
        for name, queue in (("conv1", "compute"), ("resize", "compute"), ("DMA: weights", "dma"))
    ]
    return {
        "number": number,
        "target": "npu-4t",
        "core": "big",
        "program": "model",
        "profile": "360x640",
        "array_model": "u85-like",
        "frame_ns": 3.6e6,
        "sram_bytes": 1_048_576,
        "sram_peak": 440_000,
        "kernels": kernels,
        "ranges": ranges,
        "lanes": lanes,
    }


MOVES = {
    "approve": RolloutState.APPROVED,
    "reject": RolloutState.KILLED,
    "start": RolloutState.RUNNING,
    "pause": RolloutState.PAUSED,
    "resume": RolloutState.RUNNING,
    "rollback": RolloutState.ROLLED_BACK,
}


def bearer(request: Request) -> str:
    """The token of a request."""
    return request.headers.get("authorization", "").removeprefix("Bearer ")


def identity_routes(twin: Twin) -> APIRouter:
    """The identity service: accounts named as their roles, all with one password."""
    router = APIRouter()

    @router.get("/identity/v1/sign-in-methods")
    def methods() -> dict[str, object]:
        return {"provider": twin.provider}

    @router.post("/identity/v1/sessions", status_code=201)
    def sign_in(body: dict[str, str]) -> dict[str, object]:
        if body["password"] != PASSWORD or body["name"] not in twin.roles:
            raise _Answer(401, "name or password is wrong")
        return twin.enter(body["name"])

    @router.post("/identity/v1/token-sessions", status_code=201)
    def exchange(request: Request) -> dict[str, object]:
        if bearer(request) != TOKEN:
            raise _Answer(401, "the token is unknown")
        return twin.enter(None)

    @router.get("/identity/v1/me")
    def me(request: Request) -> dict[str, object]:
        if "/identity" in twin.down:
            raise _Answer(503, "the database does not answer; nothing was changed")
        token = bearer(request)
        scopes = twin.scopes(token)
        if not scopes:
            raise _Answer(401, "the token is unknown")
        name = twin.sessions.get(token)
        role = twin.roles[name] if name else None
        session = token.split("_")[1] if token in twin.sessions else None
        shown = {"name": name or "embedded", "role": role, "scopes": sorted(scopes), "session": session}
        return {**shown, "has_password": name is not None}

    @router.delete("/identity/v1/sessions/{session_id}", status_code=204)
    def leave(session_id: str, request: Request) -> None:
        chosen = bearer(request) if session_id == "current" else f"el_{session_id}_session-of-the-twin"
        twin.sessions.pop(chosen, None)

    @router.get("/identity/v1/sessions")
    def own_sessions(request: Request) -> dict[str, object]:
        name = twin.sessions.get(bearer(request))
        moments = dict.fromkeys(("started", "seen", "ends"), "2026-11-30T12:00:00Z")
        return {
            "items": [
                {"id": token.split("_")[1], "method": "password", "browser": EVIL, "current": token == bearer(request)}
                | moments
                for token, holder in twin.sessions.items()
                if holder == name
            ]
        }

    @router.get("/identity/v1/tokens")
    def own_tokens() -> dict[str, object]:
        return {"items": [{k: v for k, v in token.items() if k != "token"} for token in twin.tokens]}

    @router.post("/identity/v1/tokens", status_code=201)
    def make_token(body: dict[str, object], request: Request) -> dict[str, object]:
        scopes = body["scopes"] or sorted(twin.scopes(bearer(request)))
        moments = {"created": "2026-11-30T12:00:00Z", "expires": "2027-02-28T12:00:00Z"}
        made = {"id": "00aa", "label": body["label"], "scopes": scopes, "token": "el_00aa_shown-once", **moments}
        twin.tokens.append(made)
        return made

    @router.delete("/identity/v1/tokens/{token_id}", status_code=204)
    def revoke_token(token_id: str) -> None:
        twin.tokens[:] = [token for token in twin.tokens if token["id"] != token_id]

    @router.post("/identity/v1/password", status_code=201)
    def password(body: dict[str, str], request: Request) -> dict[str, object]:
        if body["current"] != PASSWORD:
            raise _Answer(401, "the present password is wrong; nothing was changed")
        return twin.enter(twin.sessions.pop(bearer(request)))

    return router


def routes(twin: Twin) -> APIRouter:
    def guard(request: Request) -> None:
        scopes = twin.scopes(bearer(request))
        if not scopes:
            raise _Answer(401, "the token is unknown")
        resource = request.url.path.split("/")[1]
        halts = request.url.path.endswith(("/pause", "/rollback", "/kill-switch"))
        needed = "releases:halt" if halts else f"{resource}:write"
        if request.method != "GET" and needed not in scopes:
            raise _Answer(403, f"this needs the scope {needed}")
        if any(request.url.path.startswith(prefix) for prefix in twin.down):
            raise _Answer(503, "the database does not answer; nothing was changed")

    router = APIRouter(dependencies=[Depends(guard)])

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
            raise _Answer(404, f"rollout {rollout_id} is unknown")
        return twin.rollouts[rollout_id]

    @router.post("/releases/v1/rollouts/{rollout_id}/{verb}")
    def move(rollout_id: str, verb: str, action: OperatorAction, if_match: Annotated[str, Header()]) -> Rollout:
        now = twin.rollouts[rollout_id]
        if if_match != f'"{now.version}"':
            raise _Answer(412, "the version moved on")
        twin.sent.append((verb, action.reason))
        change = {"state": MOVES[verb], "version": now.version + 1, "human_actions": now.human_actions + 1}
        twin.rollouts[rollout_id] = now.model_copy(update=change)
        return twin.rollouts[rollout_id]

    @router.post("/releases/v1/kill-switch")
    def kill(switch: KillSwitch, request: Request) -> KillSwitch:
        if not switch.killed and "releases:write" not in twin.scopes(bearer(request)):
            raise _Answer(403, "allowing the fleet again needs the scope releases:write")
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
    def devices(limit: int, cursor: int = 0, q: str = "", device_class: str = "", running: str = "") -> DeviceList:
        wanted = [
            device
            for device in twin.devices
            if device.id.startswith(q)
            and device_class in ("", device.device_class)
            and device.running_digest.startswith(running)
        ]
        end = cursor + limit
        return DeviceList(items=tuple(wanted[cursor:end]), next_cursor=str(end) if end < len(wanted) else None)

    @router.get("/releases/v1/devices/{device_id}")
    def device(device_id: str) -> DeviceDetail:
        known = next((device for device in twin.devices if device.id == device_id), None)
        if known is None:
            raise _Answer(404, f"no device {device_id} has joined")
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
            raise _Answer(404, f"no bundle has the digest {digest[:16]}...; register its build first")
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

    @router.get("/drift/v1/flow-runs")
    def flow_runs(limit: int, cursor: int = 0) -> dict[str, object]:
        end = cursor + limit
        return {"items": twin.flows[cursor:end], "next_cursor": str(end) if end < len(twin.flows) else None}

    @router.get("/drift/v1/flow-runs/{run_id}")
    def flow_run(run_id: str) -> dict[str, object]:
        found = next((run for run in twin.flows if run["id"] == run_id), None)
        if found is None:
            raise _Answer(404, f"Prefect knows no run {run_id}")
        lines = [{"at": NOW, "level": "info", "text": f"search 40 % {EVIL}"}]
        return {**found, "lines": [*lines, {"at": NOW + 9, "level": "error", "text": "step train failed: disk full"}]}

    @router.post("/drift/v1/flow-runs/{run_id}/retry")
    def retry_flow(run_id: str, body: dict[str, str]) -> dict[str, object]:
        found = next(run for run in twin.flows if run["id"] == run_id)
        if not found["retryable"]:
            raise _Answer(409, f"run {run_id} is Completed; only a failed one is retried")
        twin.sent.append(("retry", body["reason"]))
        found.update(state="scheduled", state_name="AwaitingRetry", retryable=False)
        return found

    @router.get("/drift/v1/settings")
    def drift_settings() -> dict[str, object]:
        shown = [("z_threshold", 3.5, 3.5, "sigma-equivalent", True), ("window_days", 4.0, 3.0, "days", False)]
        names = ("name", "value", "default", "meaning", "by_cohort")
        return {"items": [dict(zip(names, row, strict=True)) for row in shown]}

    @router.get("/drift/v1/thresholds")
    def thresholds(limit: int, cohorts: str = "") -> dict[str, object]:
        wanted = [one for one in twin.thresholds if cohorts in ("", one["cohorts"])]
        return {"items": wanted[:limit], "next_cursor": None}

    @router.post("/drift/v1/thresholds")
    def change_threshold(body: dict[str, object]) -> dict[str, object]:
        row = {**body, "id": len(twin.thresholds) + 1, "author": "operator:ada", "created": NOW}
        twin.thresholds.insert(0, row)
        return row

    @router.get("/drift/v1/cohorts")
    def cohorts(limit: int, cursor: int = 0) -> CohortList:
        latest = {row.cohort: row for row in twin.days}
        end = cursor + limit
        return CohortList(
            items=tuple(
                Cohort(cohort=name, latest=latest[name], alarmed=latest[name].state is DriftState.SEVERE)
                for name in sorted(latest)[cursor:end]
            ),
            next_cursor=str(end) if end < len(latest) else None,
        )

    @router.get("/drift/v1/standing")
    def drift_standing() -> DriftStanding:
        latest = {row.cohort: row for row in twin.days}
        severe = sum(row.state is DriftState.SEVERE for row in latest.values())
        loudest = sorted(latest.values(), key=lambda row: (-(row.z or 0.0), row.cohort))
        shown = tuple(
            Cohort(cohort=row.cohort, latest=row, alarmed=row.state is DriftState.SEVERE) for row in loudest[:20]
        )
        return DriftStanding(
            cohorts=len(latest), severe=severe, alarmed=severe, loudest=shown, alarms=tuple(twin.alarms)
        )

    @router.get("/drift/v1/series")
    def series(
        limit: int, from_day: int, cohort: str = "", from_cohort: str = "", to_cohort: str = "~", cursor: int = 0
    ) -> dict[str, object]:
        if from_cohort:
            twin.ranges.append((from_cohort, to_cohort))
        rows = [
            row.model_dump(mode="json")
            for row in twin.days
            if row.day >= from_day and cohort in ("", row.cohort) and from_cohort <= row.cohort <= to_cohort
        ]
        end = cursor + limit
        return {"items": rows[cursor:end], "next_cursor": str(end) if end < len(rows) else None}

    @router.get("/drift/v1/loudest")
    def loudest(days: int, cohorts: int) -> dict[str, object]:
        top: dict[str, float] = {}
        for row in twin.days:
            top[row.cohort] = max(top.get(row.cohort, 0.0), row.z or 0.0)
        names = sorted(top, key=lambda name: (-top[name], name))[:cohorts]
        last = max((row.day for row in twin.days), default=0)
        shown = [row for row in twin.days if row.cohort in names and row.day > last - days]
        return {"items": [row.model_dump(mode="json") for row in shown]}

    @router.get("/drift/v1/alarms")
    def alarms(cohort: str = "") -> DriftAlarmList:
        return DriftAlarmList(items=tuple(one for one in twin.alarms if not cohort or cohort in one.cohorts))

    @router.get("/curation/v1/clusters")
    def clusters(limit: int, cohort: str = "", cursor: int = 0) -> ClusterList:
        wanted = [one for one in twin.clusters if not cohort or cohort in one.cohorts]
        end = cursor + limit
        return ClusterList(items=tuple(wanted[cursor:end]), next_cursor=str(end) if end < len(wanted) else None)

    @router.get("/curation/v1/cluster-map")
    def cluster_map(cohort: str = "") -> ClusterMap:
        points = [
            ClusterPoint(
                id=one.id,
                label=one.label,
                members=one.members,
                centroid=one.centroid,
                state=one.coverage.state if one.coverage else None,
            )
            for one in twin.clusters
            if not cohort or cohort in one.cohorts
        ]
        return ClusterMap(items=tuple(points[:1_000]), complete=len(points) <= 1_000)

    @router.get("/curation/v1/clusters/{cluster_id}")
    def cluster(cluster_id: str) -> dict[str, object]:
        known = next((one for one in twin.clusters if one.id == cluster_id), None)
        if known is None:
            raise _Answer(404, f"cluster {cluster_id} is unknown or its run was forgotten; list the clusters again")
        listed = [
            {"segment_id": f"s-{n}", "cohort": "npu-4t/indoor-night", "score_mean": 3.0 - n / 100, "kept": n < 4}
            for n in range(known.members)
        ]
        vectors = [(0.01 * n, 0.02 * (n % 7), *(0.0,) * 30) for n in range(known.members)]
        return {**known.model_dump(mode="json"), "medoid_id": "s-3", "listed": listed, "member_vectors": vectors}

    @router.get("/curation/v1/clusters/{cluster_id}/stand-ins")
    def stand_ins(cluster_id: str) -> dict[str, object]:
        clip = {"revision": "m2", "video": f"kids-{EVIL}", "condition": "gain0.4-noise8-crf32", "members": 41}
        found = {"cluster_id": cluster_id, "revision": "m2", "eps_cov": 0.4, "members": 61, "further": 2}
        return {**found, "items": [{**clip, "reached": 33, "nearest": 0.213}]}

    @router.get("/curation/v1/coverage")
    def coverage() -> dict[str, object]:
        after = {"revision": "m2", "vectors": 900, "share": 0.81, "low": 0.76, "high": 0.85, "members": 262}
        counts = {"covered": 212, "covered_clusters": 1, "partial_clusters": 1, "uncovered_clusters": 1}
        before = {**after, "revision": "seed", "share": 0.42, "low": 0.36, "high": 0.48}
        report = {"run_id": "run-7", "created": NOW, "segments": 300, "clusters": 3, "uncovered": 1}
        return {**report, "before": before | counts, "after": after | counts} if twin.clusters else {}

    @router.get("/builds/v1/builds")
    def builds(limit: int, cursor: int = 0) -> BuildList:
        listed, end = tuple(twin.builds.values()), cursor + limit
        return BuildList(items=listed[cursor:end], next_cursor=str(end) if end < len(listed) else None)

    @router.get("/builds/v1/builds/{build_id}/report")
    def report(build_id: str) -> dict[str, object]:
        if build_id not in twin.builds or not twin.builds[build_id].digest:
            raise _Answer(409, f"build {build_id} is compiling and has no bundle")
        return bundle_report(build_id, slower=1.25 if build_id == "b-3" else 1.0)

    @router.get("/builds/v1/builds/{build_id}/report/profiles/{number}")
    def profile_report(build_id: str, number: int) -> dict[str, object]:
        if number > 1:
            raise _Answer(404, f"the bundle of build {build_id} has 2 profiles, counted from 0; {number} is none")
        return frame_report(number)

    @router.get("/builds/v1/builds/{build_id}")
    def build(build_id: str) -> Build:
        if build_id not in twin.builds:
            raise _Answer(404, f"build {build_id} is unknown")
        return twin.builds[build_id]

    return router


class _Answer(Exception):
    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.answer = JSONResponse({"title": "Refused", "status": status, "detail": detail}, status_code=status)


def install(app: FastAPI) -> None:
    """Let the twin's refusals be answers."""

    async def refuse(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, _Answer)
        return error.answer

    app.add_exception_handler(_Answer, refuse)
