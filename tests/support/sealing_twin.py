"""The sealing side of a platform in memory: content keys by path of the sealed file, envelopes for whoever is
allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from contracts.bundle.delta import make_delta
from contracts.bundle.envelopes import binding, close_envelope
from contracts.bundle.sealed import BUNDLE_SUFFIX, Head, Kind, parse_head, seal, sealed_delta_path

CLASSES = ("npu-2t", "npu-4t")


@dataclass
class Sealer:
    """Seals bundles and deltas. `revoked`: paths whose keys are not handed out any more."""

    classes: tuple[str, ...] = CLASSES
    keys: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)

    def bundle(self, data: bytes, digest: str, epoch: int) -> tuple[str, bytes]:
        """Return (path, sealed bundle)."""
        head = Head(Kind.BUNDLE, digest, self.classes, epoch, len(data))
        return self._keep(f"bundles/{digest}{BUNDLE_SUFFIX}", head, data)

    def delta(self, base: bytes, base_digest: str, result: bytes, digest: str, epoch: int) -> tuple[str, bytes]:
        """Return (path, sealed delta)."""
        delta = make_delta(base, result)
        head = Head(Kind.DELTA, digest, self.classes, epoch, len(delta), base=base_digest)
        return self._keep(sealed_delta_path(digest, base_digest), head, delta)

    def envelope(self, path: str, device_key: bytes, device_class: str = "npu-4t") -> bytes | None:
        """The content key of a sealed file for one device; None when there is none (any more)."""
        if path not in self.keys or path in self.revoked:
            return None
        key, clear = self.keys[path]
        return close_envelope(key, device_key, binding(clear, device_class))

    def _keep(self, path: str, head: Head, data: bytes) -> tuple[str, bytes]:
        key, sealed = seal(head, data)
        self.keys[path] = key, sealed[: parse_head(sealed)[1]]
        return path, sealed
