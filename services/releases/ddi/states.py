"""States of an action; those in `LIVE` still wait for the device or its user."""

WAITING, OPEN, CANCELING = "waiting", "open", "canceling"
FINISHED, FAILED, DENIED, CANCELED = "finished", "failed", "denied", "canceled"
LIVE = (WAITING, OPEN, CANCELING)
