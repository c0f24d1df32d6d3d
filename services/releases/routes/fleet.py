"""The fleet as a whole: enrolment tokens, devices, kill switch, alerts, audit trail."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel
from sqlalchemy import select

from contracts.targeting.limits import LIMITS as TARGETING
from contracts.wire.devices import DeviceDetail
from contracts.wire.enrolment import DeviceRevocation, DeviceStanding, EnrolmentTokenRequest
from contracts.wire.releases import AlertRecord, DeviceList, FleetStanding, KillSwitch, RunningCount
from contracts.wire.settings import HeldSettings
from services.kit import audit, audit_chain
from services.kit.auth import Subject, requires
from services.kit.database import SessionDep
from services.kit.models import AuditEntry
from services.kit.pages import Page, PageDep, encode_cursor, page_of
from services.kit.problems import Forbidden, declare
from services.releases import (
    audience,
    control,
    counts,
    decisions,
    device_detail,
    device_standing,
    enrolment,
    fleet,
    held,
)
from services.releases.errors import BadSelector, UnknownDevice
from services.releases.limits import COUNTS
from services.releases.models import Alert, Control
from services.releases.routes.device import SEEN

router = APIRouter(tags=["releases: fleet"])
Reader = Annotated[Subject, requires("releases:read")]
Writer = Annotated[Subject, requires("releases:write")]
Halter = Annotated[Subject, requires("releases:halt")]
NotedLink = Annotated[str | None, Query(pattern=r"^[0-9a-f]{64}$")]
Wanted = Annotated[str, Query(max_length=64)]
Picked = Annotated[str | None, Query(max_length=200)]
Auditor = Annotated[Subject, requires("audit:read")]


class EnrolmentTokenAnswer(BaseModel):
    """An enrolment token, shown this once."""

    token: str
    uses: int
    expires: datetime


class KillSwitchState(BaseModel):
    """Whether every NPU program of ours is stopped, why, and since which epoch devices know."""

    killed: bool
    reason: str
    state_epoch: int


class AlertItem(BaseModel):
    """Something a person should know. `created` is clock time."""

    id: int
    kind: str
    subject: str
    detail: str
    created: float


class AuditItem(BaseModel):
    """Who did what to what."""

    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]  # Any: JSON


class AuditVerification(BaseModel):
    """Whether audit trail and stored decisions are what was written. `head` is the newest link: note it elsewhere."""

    ok: bool
    entries: int
    head: str
    fault: str = ""


@router.get("/v1/held-settings")
def get_held_release_settings(_: Reader) -> HeldSettings:
    """What a rollout goes by where nobody says otherwise, what a verdict tolerates, who must agree, what is kept."""
    return held.held()


@router.post("/v1/enrolment-tokens", status_code=201)
def create_enrolment_token(
    request: EnrolmentTokenRequest, subject: Writer, session: SessionDep
) -> EnrolmentTokenAnswer:
    """A token that lets a number of devices in for a time."""
    token, expires = enrolment.make_token(session, subject, request)
    return EnrolmentTokenAnswer(token=token, uses=request.uses, expires=expires)


@router.get("/v1/standing")
def get_standing(_subject: Reader, session: SessionDep) -> FleetStanding:
    """The fleet at a glance, in one answer: what runs on how many devices, the kill switch, the newest alerts.

    The counts are kept as devices report; they cost the same for ten devices and ten million.
    """
    running = counts.fleet(session)
    switch, alerts = control.with_alerts(session, COUNTS.alerts)
    return FleetStanding(
        running=tuple(RunningCount(**asdict(one)) for one in running[: COUNTS.rows]),
        complete=len(running) <= COUNTS.rows,
        killed=switch.killed,
        kill_reason=switch.kill_reason,
        alerts=tuple(AlertRecord.model_validate(row, from_attributes=True) for row in alerts),
    )


@router.get("/v1/devices", responses=declare(BadSelector))
def list_devices(
    _subject: Reader,
    session: SessionDep,
    request: PageDep,
    q: Wanted = "",
    device_class: Wanted = "",
    running: Annotated[str, Query(pattern=r"^[0-9a-f]{0,96}$")] = "",
    rule: Annotated[str, Query(max_length=TARGETING.text_chars)] = "",
) -> DeviceList:
    """Devices by identity, as last heard. `q` begins the id, `running` the digest that runs; `rule` says which tags.

    A page with a rule looks at a bounded part of the fleet: it may be empty and still have a next one.
    """
    found = fleet.page(session, request, fleet.Search(q, device_class, running, audience.normal_rule(rule)))
    polled = SEEN.of(row.id for row in found.devices)
    return DeviceList(
        items=tuple(fleet.view(row, polled.get(row.id)) for row in found.devices),
        next_cursor=encode_cursor(found.behind) if found.behind is not None else None,
    )


@router.get("/v1/devices/{device_id}", responses=declare(UnknownDevice))
def get_device(device_id: str, _subject: Reader, session: SessionDep) -> DeviceDetail:
    """One device: what it runs, the rollouts it took part in, when it reported lately."""
    return device_detail.view(session, device_detail.find(session, device_id))


@router.post("/v1/devices/{device_id}/revocations", status_code=201, responses=declare(UnknownDevice))
def revoke_device(device_id: str, request: DeviceRevocation, subject: Writer, session: SessionDep) -> DeviceStanding:
    """Take a device's right to speak: its tokens end, it gets no key and joins no more; or allow it to join again."""
    return device_standing.set_revoked(session, subject, device_id, request)


@router.get("/v1/kill-switch")
def get_kill_switch(_subject: Reader, session: SessionDep) -> KillSwitchState:
    """Whether the fleet is stopped."""
    return _kill_switch(control.state(session))


@router.post("/v1/kill-switch", responses=declare(Forbidden))
def set_kill_switch(request: KillSwitch, subject: Halter, session: SessionDep) -> KillSwitchState:
    """Stop every NPU program of ours on every device, or allow them again. Devices obey within a poll.

    Whoever may halt may stop; allowing them again needs `releases:write`.
    """
    if not request.killed and not subject.may("releases:write"):
        raise Forbidden(
            "allowing the fleet again needs the scope releases:write; with releases:halt it is stopped only"
        )
    return _kill_switch(control.set_kill_switch(session, subject, request.killed, request.reason))


@router.get("/v1/alerts")
def list_alerts(_subject: Reader, session: SessionDep, request: PageDep) -> Page[AlertItem]:
    """What a person should know, newest first."""
    query = select(Alert).order_by(Alert.id.desc()).limit(request.limit + 1)
    if request.after is not None:
        query = query.where(Alert.id < request.key(int)[0])
    return page_of(session.scalars(query).all(), request, _alert, lambda row: (row.id,))


@router.get("/v1/audit")
def list_audit(
    _subject: Auditor,
    session: SessionDep,
    request: PageDep,
    subject: Picked = None,
    actor: Picked = None,
    action: Picked = None,
) -> Page[AuditItem]:
    """The audit trail, newest first.

    `subject` picks one thing (`rollout:r-1234`), `actor` one holder (`operator:ada`), `action` what begins so.
    """
    before = request.key(int)[0] if request.after is not None else None
    rows = audit.entries(session, subject=subject, actor=actor, action=action, before=before, limit=request.limit + 1)
    return page_of(rows, request, _audit, lambda row: (row.id,))


@router.get("/v1/audit/verification")
def verify_audit(_subject: Auditor, session: SessionDep, head: NotedLink = None) -> AuditVerification:
    """Walk the audit trail's hash chain and compare every stored decision with it; `head` is a link noted before."""
    found = audit_chain.verify(session, bytes.fromhex(head) if head else None)
    fault = found.fault or decisions.changed(session)
    return AuditVerification(ok=not fault, entries=found.entries, head=found.head.hex(), fault=fault)


def _kill_switch(row: Control) -> KillSwitchState:
    return KillSwitchState(killed=row.killed, reason=row.kill_reason, state_epoch=row.epoch)


def _alert(row: Alert) -> AlertItem:
    return AlertItem.model_validate(row, from_attributes=True)


def _audit(row: AuditEntry) -> AuditItem:
    return AuditItem.model_validate(row, from_attributes=True)
