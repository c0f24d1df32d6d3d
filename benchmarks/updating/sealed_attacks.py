"""Attacks on sealed bundles, by somebody who may even sign metadata, but holds no content key, or the wrong one.

Each case gives what the device is offered (path, signed bytes) and the envelope that it is handed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from contracts.bundle.envelopes import binding, close_envelope
from contracts.bundle.sealed import Head, Kind, parse_head, seal
from edge_agent.tee import TrustedEnvironment
from tests.support.sealing_twin import CLASSES, Sealer

EPOCH = 5


@dataclass(frozen=True)
class Offer:
    """A sealed target, the epoch that the offer claims, and an envelope in place of the right one."""

    path: str
    data: bytes
    epoch: int = EPOCH
    envelope: bytes | None = None


Make = Callable[[bytes, str], Offer]


class SealedAttacks:
    """Makes offers from a good plain bundle and its digest. `other` is another good bundle."""

    def __init__(self, sealer: Sealer, tee: TrustedEnvironment, other: bytes, chance: random.Random) -> None:
        self._sealer, self._tee, self._other, self._chance = sealer, tee, other, chance

    def kinds(self) -> tuple[tuple[str, int, Make], ...]:
        """Name, how many, and how one is made."""
        return (
            ("sealed wrong-class key", 20, self.wrong_class_key),
            ("sealed ciphertext flipped", 30, self.flipped),
            ("sealed tag truncated", 20, self.truncated),
            ("sealed wrapped key swapped", 30, self.swapped_key),
            ("sealed older epoch", 20, self.older_epoch),
            ("sealed head rewritten", 20, self.rewritten),
            ("sealed other bundle inside", 10, self.other_inside),
            ("sealed not for this class", 10, self.other_class),
        )

    def wrong_class_key(self, data: bytes, digest: str) -> Offer:
        path, sealed = self._sealer.bundle(data, digest, EPOCH)
        wrong = self._sealer.envelope(path, self._tee.public().sealing, self._chance.choice(["npu-2t", "npu-8t", ""]))
        return Offer(path, sealed, envelope=wrong)

    def flipped(self, data: bytes, digest: str) -> Offer:
        path, sealed = self._sealer.bundle(data, digest, EPOCH)
        at = self._chance.randrange(parse_head(sealed)[1], len(sealed))
        return Offer(path, sealed[:at] + bytes([sealed[at] ^ 1 << self._chance.randrange(8)]) + sealed[at + 1 :])

    def truncated(self, data: bytes, digest: str) -> Offer:
        """Some of the tag is gone; half of them have a head that admits the shorter file."""
        path, sealed = self._sealer.bundle(data, digest, EPOCH)
        cut = self._chance.randrange(1, 17)
        head, clear = parse_head(sealed)
        if self._chance.random() < 0.5:
            return Offer(path, replace(head, length=head.length - cut).to_bytes() + sealed[clear:-cut])
        return Offer(path, sealed[:-cut])

    def swapped_key(self, data: bytes, digest: str) -> Offer:
        """An envelope of another bundle, of another device, or of an earlier sealing of this very bundle."""
        path, _ = self._sealer.bundle(data, digest, EPOCH)
        mine = self._tee.public().sealing
        elsewhere, _ = self._sealer.bundle(self._other, "ab" * 48, EPOCH)
        earlier = self._sealer.envelope(path, mine)
        path, sealed = self._sealer.bundle(data, digest, EPOCH)
        stranger = self._chance.randbytes(32)
        wrong = (self._sealer.envelope(elsewhere, mine), earlier, self._sealer.envelope(path, stranger))
        return Offer(path, sealed, envelope=self._chance.choice([*wrong, self._chance.randbytes(80), b"\0"]))

    def older_epoch(self, data: bytes, digest: str) -> Offer:
        """Sealed properly for an older epoch; the offer tells the truth about it, or lies."""
        path, sealed = self._sealer.bundle(data, digest, EPOCH - 1)
        return Offer(path, sealed, epoch=self._chance.choice([EPOCH - 1, EPOCH]))

    def rewritten(self, data: bytes, digest: str) -> Offer:
        """An older sealing whose head was changed to say what the offer says."""
        path, sealed = self._sealer.bundle(data, digest, EPOCH - 1)
        head, clear = parse_head(sealed)
        lie = replace(head, security_epoch=EPOCH, classes=self._chance.choice([CLASSES, ("npu-4t",)]))
        return Offer(path, lie.to_bytes() + sealed[clear:])

    def other_inside(self, data: bytes, digest: str) -> Offer:
        """Another bundle, sealed under a head that names this one."""
        head = Head(Kind.BUNDLE, digest, CLASSES, EPOCH, len(self._other))
        return self._resealed(head, self._other)

    def other_class(self, data: bytes, digest: str) -> Offer:
        return self._resealed(Head(Kind.BUNDLE, digest, ("npu-2t",), EPOCH, len(data)), data)

    def _resealed(self, head: Head, data: bytes) -> Offer:
        key, sealed = seal(head, data)
        bound = binding(sealed[: parse_head(sealed)[1]], "npu-4t")
        envelope = close_envelope(key, self._tee.public().sealing, bound)
        path, _ = self._sealer.bundle(data, head.digest, EPOCH)
        return Offer(path, sealed, envelope=envelope)
