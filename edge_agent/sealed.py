"""Sealed bundles: fetched under signatures, opened inside the trusted environment, kept under the device's own key.

The signed metadata prove what was fetched, the platform hands out its content key in an envelope that only this
device's trusted environment opens, and what that returns is sealed again for this disk. So a device needs the
platform's key once; a restart needs none. A delta is sealed too: it is opened, applied and checked inside, and a
delta that does not lead to the bundle costs its bytes and nothing else. Invariant: no plain bytes of a sealed bundle
ever reach the disk.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError
from tuf.api.exceptions import DownloadHTTPError, LengthOrHashMismatchError
from tuf.api.metadata import TargetFile

from contracts.bundle import Bundle, BundleError
from contracts.bundle.sealed import BUNDLE_SUFFIX, MOST_BYTES, SealedError, parse_head, sealed_delta_path
from contracts.state import Target
from contracts.wire.keys import BundleKey, BundleKeyRequest, signed_request
from edge_agent.disk import Disk
from edge_agent.errors import AgentError, Refused, Unreachable
from edge_agent.limits import LIMITS
from edge_agent.pace import Going, always
from edge_agent.store import BundleStore
from edge_agent.tee import TeeRefused, TeeUnavailable, TrustedEnvironment, Why
from edge_agent.transport import Transport
from edge_agent.updater import SignedRepository

log = logging.getLogger(__name__)
ROUTE = "/releases/v1/bundle-keys"


class NoKey(AgentError):
    """The platform gives this device no key for this file."""


class KeyDesk:
    """Asks the platform for content keys, in the device's name."""

    def __init__(self, transport: Transport, identity_key: Callable[[], Ed25519PrivateKey]) -> None:
        self._transport, self._identity_key = transport, identity_key

    def envelope(self, path: str, tee: TrustedEnvironment) -> bytes:
        """Return the envelope of the content key of a target. Raises NoKey, PlatformError, TeeUnavailable."""
        sealing = tee.public().sealing
        request = BundleKeyRequest(
            path=path,
            sealing_key=base64.b64encode(sealing).decode(),
            signature=base64.b64encode(self._identity_key().sign(signed_request(path, sealing))).decode(),
        )
        try:
            answer = self._transport.post(ROUTE, request.model_dump_json().encode())
            return base64.b64decode(BundleKey.model_validate_json(answer.body).envelope, validate=True)
        except Refused as error:
            raise NoKey(f"the platform gives no key for {path} ({error.status})") from error
        except (ValidationError, ValueError) as error:
            raise Unreachable(f"the answer to the key request for {path} is malformed") from error


class SealedBundles:
    """Brings sealed bundles into the store. `deltas` counts those that came as one."""

    def __init__(
        self, repository: SignedRepository, store: BundleStore, desk: KeyDesk, device_class: str, disk: Disk
    ) -> None:
        self._repository, self._store, self._desk = repository, store, desk
        self._device_class, self._disk = device_class, disk
        self.deltas = 0

    def fetch(self, target: Target, incoming: Path, bases: Mapping[str, Path], going: Going = always) -> Bundle:
        """Return the bundle, from the store or from the platform.

        Raises BundleError, NoKey, TeeRefused, TeeUnavailable, TrustError, Unreachable, Cancelled, OSError.
        """
        tee = self._store.tee
        if tee is None:
            raise TeeUnavailable("the offered bundle is sealed and this device has no trusted environment")
        with self._repository.visit(target.path) as (whole, find):
            kept = self._kept(target.digest)
            if kept is not None:
                return kept
            for info, base in self._deltas(whole, find, target.digest, bases):
                try:
                    bundle = self._take(info, base, target, incoming, tee, going)
                except (TeeRefused, NoKey, BundleError, LengthOrHashMismatchError, DownloadHTTPError) as error:
                    log.warning("delta %s is of no use (%s); the whole bundle is fetched", info.path, error)
                else:
                    self.deltas += 1
                    return bundle
            return self._take(whole, None, target, incoming, tee, going)

    def _kept(self, digest: str) -> Bundle | None:
        """The bundle as it lies here from an earlier time, when it can still be opened."""
        if not self._store.stored_path(digest).exists():
            return None
        try:
            return self._store.open(digest)
        except (BundleError, TeeRefused, OSError) as error:
            log.warning("stored bundle %s cannot be opened (%s); it is fetched again", digest[:12], error)
            return None

    def _deltas(
        self,
        whole: TargetFile,
        find: Callable[[str], TargetFile | None],
        digest: str,
        bases: Mapping[str, Path],
    ) -> Iterator[tuple[TargetFile, Path]]:
        """The smallest delta, when one is clearly smaller than the whole."""
        found = ((find(sealed_delta_path(digest, base)), path) for base, path in bases.items())
        usable = [(info, path) for info, path in found if info and info.length < LIMITS.delta_share * whole.length]
        yield from sorted(usable, key=lambda pair: int(pair[0].length))[:1]

    def _take(
        self,
        info: TargetFile,
        base: Path | None,
        target: Target,
        incoming: Path,
        tee: TrustedEnvironment,
        going: Going,
    ) -> Bundle:
        self._repository.download(info, incoming, going)
        sealed = self._disk.read(incoming, MOST_BYTES + 1)
        try:
            self._check_head(sealed, target)
            before = self._disk.read(base, MOST_BYTES + 1) if base is not None else b""
            envelope = self._desk.envelope(info.path, tee)
            going()
            stored = tee.admit(sealed, envelope, self._device_class, before)
            return self._store.adopt_stored(incoming, stored, target.digest)
        except (AgentError, BundleError):
            self._disk.remove(incoming)
            raise

    @staticmethod
    def _check_head(sealed: bytes, target: Target) -> None:
        try:
            head, _ = parse_head(sealed)
        except SealedError as error:
            raise BundleError(target.path, str(error), "release it again") from error
        if head.digest != target.digest:
            raise BundleError(target.path, "holds another bundle than the offer names", "release it again")
        if head.security_epoch != target.security_epoch:
            detail = f"sealed for epoch {head.security_epoch}, the offer says {target.security_epoch}"
            raise TeeRefused(Why.OLD_EPOCH, detail)


def is_sealed_path(path: str) -> bool:
    """Whether the offer names a sealed bundle."""
    return path.endswith(BUNDLE_SUFFIX)
