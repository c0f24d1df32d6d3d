"""The agent that runs on a device: plays video through the NPU, notices weak spots, keeps its bundle current.

Imports `contracts` only. Nothing of the platform is needed for the call itself: without a network the agent
goes on with what it has.
"""

__version__ = "0.1.0"
