"""How an operator takes a device's right to speak, and gives it back.

A device that was revoked has no valid token, gets no content key, and neither joins with its key nor is spoken for by a
gateway. To speak again it joins anew, after somebody allowed it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy.orm import Session

from contracts.wire.enrolment import DeviceRevocation, DeviceStanding
from services.kit.audit import record
from services.kit.auth import Subject, revoke
from services.releases import device_detail


def set_revoked(session: Session, subject: Subject, device_id: str, request: DeviceRevocation) -> DeviceStanding:
    """Take the device's right to speak, or allow it to join again. Raises UnknownDevice."""
    device = device_detail.find(session, device_id)
    session.refresh(device, with_for_update=True)
    ended = revoke(session, "device", device.id)
    device.revoked_at = None if request.lift else datetime.now(UTC)
    device.keys_barred = not request.lift
    action = "device.allowed" if request.lift else "device.revoked"
    record(session, subject, action, f"device:{device.id}", {"reason": request.reason, "tokens": ended})
    return DeviceStanding(device_id=device.id, revoked=not request.lift, tokens=ended)
