"""The cache's own task: revoked tokens leave it, also those whose revocation it missed."""

from __future__ import annotations

import redis
import structlog

from services.kit.database import transaction
from services.kit.limits import REVOCATIONS
from services.kit.revocations import sweep
from services.kit.tasks import beat, task

log = structlog.get_logger(__name__)


@beat("kit.sweep_revocations", seconds=REVOCATIONS.sweep_s)
@task(queue="kit", time_limit=60)
def sweep_revocations() -> int:
    """Take what was revoked since the last sweep out of the cache; a cache that is down is swept when it is back."""
    try:
        with transaction() as session:
            return sweep(session)
    except redis.RedisError as error:
        log.warning("revocations_not_swept", error=type(error).__name__)
        return 0
