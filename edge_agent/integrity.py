"""Are the weights in memory still the ones that were verified?

Bundles are checked when they are opened, and then used in place for days. A flipped bit or a hand that writes into the
mapped file afterwards would go unseen; so every hundred frames the programs and models of the bundle that plays are
authenticated again: HMAC-SHA-384 under a key that is made for this process and never stored. The cost is one pass over
the bundle's bytes, about 0.7 ms for 300 KB, in one frame of a hundred.
"""

from __future__ import annotations

import hmac
import os
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from contracts.bundle import Bundle

if TYPE_CHECKING:
    from typing_extensions import Buffer

GUARDED = (".npu", ".onnx")
KEPT = 4
"""Bundles that may still play: running, before it, built in, on its way."""


class WeightGuard:
    """Remembers a MAC of each loaded bundle's weights: of the first one (the built-in bundle) for ever, and of those
    that were watched or checked last.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._key = os.urandom(48)
        self._known: OrderedDict[str, tuple[Bundle, Sequence[Buffer], bytes]] = OrderedDict()
        self._kept = kept
        self._broken: set[str] = set()
        self._first = ""

    def watch(self, bundle: Bundle, in_use: Sequence[Buffer] = ()) -> None:
        """Remember the weights of a bundle that was verified just now, and those that its programs use."""
        self._known[bundle.digest] = (bundle, in_use, self._mac(bundle, in_use))
        self._broken.discard(bundle.digest)
        self._first = self._first or bundle.digest
        for digest in [known for known in self._known if known not in (self._first, bundle.digest)][: -self._kept + 2]:
            del self._known[digest]

    def intact(self, digest: str) -> bool:
        """Whether the weights of a bundle are what they were. One that was found changed stays so until it is watched
        again; one that nobody watches is taken as it is.
        """
        known = self._known.pop(digest, None)
        if known is None:
            return digest not in self._broken
        bundle, in_use, mac = known
        if not hmac.compare_digest(self._mac(bundle, in_use), mac):
            self._broken.add(digest)
            return False
        self._known[digest] = known
        return True

    def _mac(self, bundle: Bundle, in_use: Sequence[Buffer]) -> bytes:
        made = hmac.new(self._key, digestmod="sha384")
        for name in bundle.names:
            if name.endswith(GUARDED):
                made.update(name.encode())
                made.update(bundle.piece(name))
        for part in in_use:
            made.update(part)
        return made.digest()
