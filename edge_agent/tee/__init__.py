"""The trusted environment of a device: an emulated one in a process of its own, and the door to it.

`core` holds the keys and does the work, `wire` is the protocol, `__main__` the process, `client` the agent's side.
Nothing else of the agent imports `core`.
"""

from __future__ import annotations

from edge_agent.tee.errors import TeeRefused, TeeUnavailable, Why
from edge_agent.tee.face import TrustedEnvironment

__all__ = ["TeeRefused", "TeeUnavailable", "TrustedEnvironment", "Why"]
