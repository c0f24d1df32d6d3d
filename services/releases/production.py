"""Tell builds which build the fleet runs, so that the gate judges the next candidate against it.

A change of the baseline leaves through the outbox with the transaction that made it; marking a build twice changes
nothing. A build that the service does not know (a bundle uploaded by hand) is nothing to tell.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from services.kit.clients import ServiceClient, ServiceRefused
from services.kit.outbox import enqueue, handler
from services.kit.settings import settings
from services.releases.models import BundleRow

TOPIC = "release.baseline"


def announce(session: Session, digest: str | None, cause: str) -> None:
    """Enqueue that `digest` is what the fleet should run now; `cause` makes the message unique."""
    bundle = session.get(BundleRow, digest) if digest else None
    if bundle is not None and bundle.build_id:
        enqueue(session, TOPIC, cause, {"build_id": bundle.build_id})


@handler(TOPIC)
def tell_builds(_key: str, payload: dict[str, Any]) -> None:  # Any: JSON
    """Mark the build as production."""
    with ServiceClient(f"{settings().base_url}/builds", settings().service_token) as client:
        try:
            client.post(f"/v1/builds/{payload['build_id']}/production")
        except ServiceRefused as error:
            if error.status != 404:
                raise
