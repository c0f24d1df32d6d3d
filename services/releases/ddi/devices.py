"""Who speaks DDI: a device with its own token, or any device behind a gateway's token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import Depends, Request
from pydantic import ValidationError
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from contracts.device import DeviceTags
from services.kit.auth import ScopeGuard, Subject
from services.kit.problems import NotFound, Unauthorized
from services.releases import service
from services.releases.ddi.messages import ConfigData, Mode
from services.releases.models import DdiDevice, Device

TENANT = "DEFAULT"
SCHEMES = frozenset({"targettoken", "gatewaytoken", "bearer"})
UNKNOWN = DeviceTags(device_class="unknown")


@dataclass(frozen=True)
class DdiGuard(ScopeGuard):
    """Like ScopeGuard, for `TargetToken` and `GatewayToken` too."""

    def token(self, request: Request) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() in SCHEMES else ""


def speaks_ddi(scope: str) -> Any:  # Any: as FastAPI's own Depends
    """`Annotated[Subject, speaks_ddi("updates:read")]`."""
    return Depends(DdiGuard(scope))


def device_of(session: Session, subject: Subject, tenant: str, controller_id: str) -> tuple[Device, DdiDevice]:
    """The device, locked. A gateway's devices are registered at first contact; a device's token is for itself alone,
    and a gateway's is for no device that joined with a key of its own.
    """
    if tenant.upper() != TENANT:
        raise NotFound(f"there is no tenant {tenant[:64]!r}; this platform has one, {TENANT}")
    if subject.kind == "device" and subject.id != controller_id:
        raise Unauthorized("this token belongs to another device; send the token of this one, or a gateway's")
    if subject.kind != "device":
        _register(session, controller_id)
    device = session.get(Device, controller_id, with_for_update={"key_share": True})
    if device is None:
        raise NotFound(f"no device has the identity {controller_id[:64]}; enrol it")
    if subject.kind != "device" and device.public_key != _mark(controller_id):
        raise Unauthorized("this device joined with a key of its own; it speaks for itself, with its own token")
    if device.revoked_at is not None:
        raise Unauthorized("this device was revoked; ask an operator")
    session.execute(insert(DdiDevice).values(device_id=controller_id).on_conflict_do_nothing())
    return device, session.get_one(DdiDevice, controller_id)


def describe(device: Device, own: DdiDevice, config: ConfigData) -> None:
    """Take over the attributes that are tags; what is no tag of ours, or no tag's word, is passed over."""
    known = {} if config.mode is Mode.REPLACE else dict(device.tags)
    for name in DeviceTags.model_fields:
        if name in config.data:
            known.pop(name, None)
            if config.mode is not Mode.REMOVE:
                known[name] = config.data[name].lower()
    device.tags = _tags(known).model_dump()
    device.device_class = device.tags["device_class"]
    device.last_feedback = service.clock().now()
    own.wants_attributes = False


def _tags(given: dict[str, str]) -> DeviceTags:
    good = {"device_class": UNKNOWN.device_class}
    for name, value in given.items():
        try:
            DeviceTags.model_validate({"device_class": UNKNOWN.device_class, name: value})
        except ValidationError:
            continue
        good[name] = value
    return DeviceTags.model_validate(good)


def _mark(controller_id: str) -> str:
    """What stands in place of a key for a device that a gateway brought."""
    return f"ddi:{controller_id}"


def _register(session: Session, controller_id: str) -> None:
    statement = insert(Device).values(
        id=controller_id,
        public_key=_mark(controller_id),
        device_class=UNKNOWN.device_class,
        tags=UNKNOWN.model_dump(),
        agent_version="ddi",
        enrolled=service.clock().now(),
    )
    session.execute(statement.on_conflict_do_nothing())
