"""From a stored file to a running program: the only door, and it counts.

Invariant: a playback exists only for bytes whose manifest, lengths and hashes were just checked by
`contracts.bundle` and whose digest is the one that was asked for. `is_verified` is an independent ledger
that the frame loop consults on every frame.
"""

from __future__ import annotations

import logging
from pathlib import Path

from contracts.bundle import Bundle, BundleError
from contracts.statistics import ObserverError
from edge_agent.errors import ConfigError
from edge_agent.integrity import WeightGuard
from edge_agent.playback import Loader, Playback
from edge_agent.reference import reference_latencies
from edge_agent.runtime.backend import BackendError
from edge_agent.runtime.npu import NpuError
from edge_agent.slots import Slots
from edge_agent.store import BundleStore
from edge_agent.tee import TeeRefused, TeeUnavailable

log = logging.getLogger(__name__)
UNUSABLE = (BundleError, NpuError, BackendError, ObserverError, OSError, TeeUnavailable, TeeRefused)


class Bundles:
    """The built-in bundle and the stored ones, loaded on demand."""

    def __init__(self, factory: Path, store: BundleStore, loader: Loader) -> None:
        self.store, self._loader, self._factory = store, loader, factory
        self._verified: set[str] = set()
        self._guard = WeightGuard()
        self._floor_told = 0
        self.verifications = 0
        self.loads = 0
        try:
            bundle = store.open_file(factory)
            self.built_in = self.load(bundle)
            self._references = reference_latencies(bundle)
        except UNUSABLE as error:
            raise ConfigError(f"built-in bundle {factory} cannot run here: {error}") from error

    def reference_ms(self, device_class: str, size: tuple[int, int]) -> float | None:
        """What the built-in bundle needs for a frame of (rows, columns), by its own estimate; None: not known."""
        return self._references.get((device_class, size))

    def load(self, bundle: Bundle) -> Playback:
        """Load a bundle that was opened, and so verified. Raises one of UNUSABLE."""
        self.verifications += 1
        try:
            playback = self._loader.load(bundle)
        except UNUSABLE:
            raise
        except Exception as error:  # whatever a bundle holds, it must not end the agent
            log.exception("bundle %s could not be loaded", bundle.digest[:12])
            raise BundleError(bundle.path.name, f"not loadable ({error!r})", "build it again") from error
        self._guard.watch(bundle, getattr(playback, "weights", ()))
        self._verified.add(bundle.digest)
        self.loads += 1
        return playback

    def open(self, digest: str) -> Playback:
        """Verify and load a stored bundle. Raises BundleError, NpuError or OSError."""
        if digest == self.built_in.digest:
            return self.built_in
        return self.load(self.store.open(digest))

    def memory_map(self, digest: str, device_class: str) -> dict[str, object] | None:
        """Return the memory map that a bundle carries for a device class; None when there is none to be had."""
        try:
            built_in = digest == self.built_in.digest
            bundle = self.store.open_file(self._factory) if built_in else self.store.open(digest)
            found: dict[str, object] = bundle.json(f"{device_class}/memory_map.json")
        except (*UNUSABLE, ValueError) as error:
            log.info("no memory map of bundle %s: %s", digest[:12], error)
            return None
        return found

    def for_slots(self, slots: Slots) -> Playback:
        """Return what `slots` point to. Raises like `open`."""
        return self.open(slots.running.digest) if slots.active else self.built_in

    def at_hand(self, slots: Slots) -> dict[str, Path]:
        """Bundle files of this device by digest: what a delta may start from."""
        paths = {digest: self.store.find(digest) for digest in slots.digests()}
        found = {digest: path for digest, path in paths.items() if path is not None}
        return {self.built_in.digest: self._factory, **found}

    def is_sealed(self, digest: str) -> bool:
        """Whether opening this bundle needs the trusted environment."""
        return self.store.find(digest) == self.store.stored_path(digest)

    def raise_floor(self, epoch: int) -> None:
        """Let the trusted environment know the security floor; one that does not answer hears it another time."""
        tee = self.store.tee
        if tee is None or epoch <= self._floor_told or not self.store.sealed_used:
            return
        try:
            self._floor_told = tee.raise_floor(epoch)
        except (TeeUnavailable, TeeRefused) as error:
            log.warning("the trusted environment has not heard of security floor %d: %s", epoch, error)

    def intact(self, digest: str) -> bool:
        """Tell whether the weights in memory are still the verified ones; a bundle that is not loses its standing."""
        if self._guard.intact(digest):
            return True
        log.error("the weights of bundle %s changed after they were verified", digest[:12])
        self._verified.discard(digest)
        self.store.forget(digest)
        return False

    def restore_built_in(self) -> bool:
        """Read the built-in bundle again after its bytes in memory changed. False when the file is bad too."""
        try:
            self.built_in = self.load(Bundle.open(self._factory))
        except UNUSABLE as error:
            log.error("built-in bundle %s is damaged (%s); frames are enlarged plainly", self._factory, error)
            return False
        return True

    def is_verified(self, digest: str) -> bool:
        """Tell whether bytes of this digest were verified in this process."""
        return digest in self._verified
