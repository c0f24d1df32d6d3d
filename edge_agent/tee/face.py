"""What the agent may ask of a trusted environment: five questions, none of which gives a private key away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class PublicKeys:
    """Raw public keys of 32 bytes: X25519 to send secrets to, Ed25519 to check signatures with."""

    sealing: bytes
    signing: bytes


class TrustedEnvironment(Protocol):
    """Raises TeeUnavailable, TeeRefused. A call may take `LIMITS.tee_s`: never make one from the frame loop."""

    def public(self) -> PublicKeys:
        """Keys that may be known to everybody."""

    def admit(self, sealed: bytes, envelope: bytes, device_class: str, base: bytes = b"") -> bytes:
        """Open what the platform sealed, check it, and return it sealed again for this device's disk.

        `base` is the bundle (plain or stored) that a delta starts from.
        """

    def open(self, stored: bytes) -> memoryview:
        """Return the plain bundle in memory that nobody can write to."""

    def raise_floor(self, epoch: int) -> int:
        """From now on open nothing of an older security epoch; return the floor."""

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature (64 bytes) over a short message, in a domain of its own."""
