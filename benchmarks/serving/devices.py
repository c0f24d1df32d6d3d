"""Devices for benches, put into the database in bulk: a bench of polls does not measure enrolment."""

from __future__ import annotations

import base64
import os
import secrets
import time

from sqlalchemy import insert

from contracts.device import DeviceTags
from contracts.state import public_text
from edge_agent.simulated.device import Ticket
from services.kit.auth import DEFAULT_SCOPES, hash_of, issue_token
from services.kit.database import transaction
from services.kit.models import Token
from services.releases import service
from services.releases.models import Device

CLASSES = ("npu-2t", "npu-4t")
BATCH = 2_000


def add_devices(count: int, running: str) -> list[Ticket]:
    """Enrolled devices of two classes that run `running`."""
    tickets = [_ticket(index, running) for index in range(count)]
    for start in range(0, count, BATCH):
        batch = tickets[start : start + BATCH]
        with transaction() as session:
            session.execute(insert(Device), [_device(ticket) for ticket in batch])
            session.execute(insert(Token), [_token(ticket) for ticket in batch])
    return tickets


def operator_token() -> str:
    """A token for operators' calls."""
    with transaction() as session:
        return issue_token(session, "operator", "bench")


def state_key() -> str:
    """The public key of state documents as devices get it when they join."""
    return public_text(service.keys().state_key().public_key())


def _ticket(index: int, running: str) -> Ticket:
    token = f"el_{secrets.token_hex(8)}_{secrets.token_urlsafe(32)}"
    tags = DeviceTags(device_class=CLASSES[index % len(CLASSES)])
    return Ticket(f"{index:08x}{secrets.token_hex(12)}", token, tags, running)


def _device(ticket: Ticket) -> dict[str, object]:
    return {
        "id": ticket.device_id,
        "public_key": base64.b64encode(os.urandom(32)).decode(),
        "device_class": ticket.tags.device_class,
        "tags": ticket.tags.model_dump(),
        "agent_version": "simulated",
        "running_digest": ticket.running,
        "enrolled": time.time(),
    }


def _token(ticket: Ticket) -> dict[str, object]:
    _, token_id, secret = ticket.token.split("_", 2)
    return {
        "id": token_id,
        "secret_hash": hash_of(secret),
        "kind": "device",
        "subject_id": ticket.device_id,
        "scopes": sorted(DEFAULT_SCOPES["device"]),
    }
