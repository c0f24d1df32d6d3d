"""Light devices join like any other: a token and a key each against an identity."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contracts.device import DeviceTags
from edge_agent.errors import EnrolmentError
from edge_agent.simulated.device import SIMULATED, Ticket
from edge_agent.simulated.http import LightClient

ENROL_PATH = "/releases/v1/enrolments"
PAUSE_S = 0.5


@dataclass(frozen=True)
class Joined:
    """Tickets of devices that joined, and the key of state documents as text."""

    tickets: list[Ticket]
    state_key: str


async def join(
    client: LightClient, token: str, tags: Sequence[DeviceTags], running: str, say: Callable[[float], None]
) -> Joined:
    """Enrol one device for each of `tags`. Raises EnrolmentError when the platform refuses."""
    found: list[tuple[Ticket, str]] = []

    async def one(own: DeviceTags) -> None:
        found.append(await _enrol(client, token, own, running))
        say(len(found) / len(tags))

    await asyncio.gather(*(one(own) for own in tags))
    return Joined([ticket for ticket, _ in found], found[0][1] if found else "")


async def _enrol(client: LightClient, token: str, tags: DeviceTags, running: str) -> tuple[Ticket, str]:
    body = {
        "token": token,
        "public_key": base64.b64encode(os.urandom(32)).decode(),
        "tags": tags.model_dump(),
        "agent_version": SIMULATED,
        "running_digest": running,
    }
    while True:
        reply = await client.request(
            "POST", ENROL_PATH, {"Content-Type": "application/json"}, json.dumps(body).encode()
        )
        if reply.status == 429:
            await asyncio.sleep(float(reply.headers.get("retry-after", PAUSE_S)))
            continue
        if reply.status != 201:
            text = reply.body[:200].decode(errors="replace")
            raise EnrolmentError(f"the platform answers {reply.status} to an enrolment ({text}); ask for a token")
        answer = json.loads(reply.body)
        return Ticket(answer["device_id"], answer["access_token"], tags, running), answer["state_key"]
