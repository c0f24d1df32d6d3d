"""Bundles that must not get in: over three hundred generated cases against one device that runs a good bundle.

Outside attackers change what travels (bundles, deltas, metadata, state documents). Inside mistakes are signed properly
and still wrong: an older security epoch, pieces of two builds in one bundle, a bundle for another device class, a
digest or epoch that the offer does not match. After every case the device talks twice and plays; the case is accepted
when the bundle runs or stands in a slot, when the security floor moved, or when bytes that are not what their name says
lie in the store. No case may make the device leave the bundle that it runs. At the end the
device must still take a good bundle, or it refused everything for another reason.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import logging
import random
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.mending.seed_bundle import SEEDS, seed_bundle
from benchmarks.updating.deltas import DATA
from benchmarks.updating.sealed_attacks import Make, SealedAttacks
from compiler.driver import compile_bundle
from contracts.bundle import Bundle
from contracts.bundle.chunks import Chunks
from contracts.bundle.delta import delta_path
from contracts.bundle.manifest import MANIFEST, Manifest, PieceRecord
from contracts.bundle.writer import _write_zip
from contracts.clock import SystemClock
from contracts.state import Target
from edge_agent.agent import Agent, LoopSettings
from edge_agent.compose import TEE_FOLDER, DeviceSettings, Shared, build_agent, join
from edge_agent.disk import Disk
from edge_agent.engines import RunnerLoader
from edge_agent.observation import ObservationSettings
from edge_agent.observers.health import TrialLimits
from edge_agent.sinks import NullSink
from edge_agent.store import BundleStore
from edge_agent.tee.core import Tee
from edge_agent.transport import Transport
from tests.support.agent_twin import TAGS, PictureSource
from tests.support.platform_twin import TOKEN, PlatformTwin, in_process
from tests.support.sealing_twin import CLASSES, Sealer

EPOCH = 5
SEED = 20
TRIAL = TrialLimits(frames=2, misses=10_000)

NEVER_STORED = ("tampered", "truncated", "tampered delta", "mixed pieces", "other digest")
SEALED = "sealed "
"""How the kinds begin that `sealed_attacks.py` makes; none of them may leave a file behind."""


@dataclass
class Outcome:
    """How many cases of each kind there were, and which got in."""

    cases: Counter[str] = field(default_factory=Counter)
    accepted: list[str] = field(default_factory=list)
    causes: dict[str, Counter[str]] = field(default_factory=dict)
    last_good: bool = False
    left_base: int = 0


@dataclass(frozen=True)
class Case:
    """An attack: the bundle that must not get in, and what sets it up."""

    kind: str
    digest: str
    set_up: Callable[[], None]


class Siege:
    """A device, its platform, and good bundles to attack with."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._random = folder, random.Random(SEED)
        self._epochs, self._names = itertools.count(10), itertools.count(1)
        self.twin = PlatformTwin()
        self.twin.with_chunks, self.twin.url = True, "http://platform"
        self.twin.sealer, self.twin.seals = Sealer(), False
        self.tee = Tee(folder / "device" / TEE_FOLDER, CLASSES, Disk(durable=False))
        self._running = self._compiled("running")
        self._good = self._compiled("good", DATA / "short.onnx")
        self._next = self._compiled("next", DATA / "long.onnx")
        self._older = self._compiled("older", epoch=EPOCH - 1)
        self._foreign = self._foreign_class()
        self.agent = self._agent()
        self.left_base = 0
        self._base = self._release(self._running)
        self._offer(self._base)
        self._talk()
        if self.agent.playback.digest != self._base.digest or self.agent.slots.security_floor != EPOCH:
            raise AssertionError(f"the device must run a confirmed bundle first: {self.agent.status()}")

    def cases(self) -> Iterator[Case]:
        """Every case in turn; the next is made when the one before is over."""
        for kind, count, make in (
            ("tampered", 60, self._tampered),
            ("truncated", 25, self._truncated),
            ("tampered delta", 25, self._tampered_delta),
            ("replayed metadata", 20, self._replayed),
            ("expired metadata", 5, self._expired),
            ("older epoch", 20, self._older_epoch),
            ("mixed pieces", 40, self._mixed),
            ("wrong class", 10, self._wrong_class),
            ("other digest", 10, self._other_digest),
            ("unsigned target", 5, self._unsigned),
            ("replayed state", 10, self._replayed_state),
            ("forged state", 10, self._forged_state),
        ):
            for _ in range(count):
                yield make(kind)
        sealed = SealedAttacks(self.twin.sealer or Sealer(), self.tee, self._next.read_bytes(), self._random)
        for kind, count, offer in sealed.kinds():
            for _ in range(count):
                yield self._sealed(kind, offer)

    def accepted(self, case: Case) -> tuple[bool, set[str]]:
        """Carry out a case, restore the platform; tell whether the bundle got in, and why it was refused."""
        heard, before = len(self.twin.batches), self._refusals()
        kept = dict(self.twin.tuf.files), dict(self.twin.tuf.blobs)
        case.set_up()
        self._talk()
        slots = self.agent.slots
        stands = case.digest in (slots.a.digest, slots.b.digest) and slots.holding(case.digest) != ""
        stored = any((self._folder / "device" / "bundles").glob(f"{case.digest}.*"))
        runs = self.agent.playback.digest == case.digest
        left = self.agent.playback.digest != self._base.digest
        self.twin.tuf.files, self.twin.tuf.blobs = kept
        self.twin.wrong_envelope = None
        self.twin.tuf.publish()
        self._offer(self._base)
        self._talk()
        self.left_base += left
        events = (event for _, batch in self.twin.batches[heard:] for event in batch.installs)
        causes = {event.cause.value for event in events if event.digest == case.digest}
        never_stored = case.kind in NEVER_STORED or case.kind.startswith(SEALED)
        got_in = stands or runs or slots.security_floor != EPOCH or (stored and never_stored)
        return got_in, (causes - {"none"}) or self._why(before)

    def _refusals(self) -> tuple[int, int, int]:
        """How often the device refused a bundle, a state document, or could not fetch."""
        platform = self.agent._parts.platform
        assert platform is not None
        return platform.executor.refused, platform.keeper.refused, self.agent.counters.sync_errors

    def _why(self, before: tuple[int, int, int]) -> set[str]:
        """Why nothing new was told: the platform hears a cause once for each bundle."""
        words = ("again as before", "state document refused", "not to be had")
        grown = [word for word, old, new in zip(words, before, self._refusals(), strict=True) if new > old]
        return set(grown[:1]) or {"not wanted"}

    def good_gets_in(self) -> bool:
        """Whether the device still takes what it should, sealed and plain."""
        return self._gets_in(self._good, seals=True) and self._gets_in(self._next, seals=False)

    def _gets_in(self, path: Path, seals: bool) -> bool:
        self.twin.seals = seals
        target = self._release(path)
        self._offer(target)
        self._talk()
        return self.agent.playback.digest == target.digest

    # outside

    def _tampered(self, kind: str) -> Case:
        data = self._good.read_bytes()
        at, bit = self._random.randrange(len(data)), 1 << self._random.randrange(8)
        return self._served(kind, data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])

    def _truncated(self, kind: str) -> Case:
        return self._served(kind, self._good.read_bytes()[: self._random.randrange(1, self._good.stat().st_size)])

    def _served(self, kind: str, data: bytes) -> Case:
        target = self._release(self._good)

        def set_up() -> None:
            (key,) = [key for key in self.twin.tuf.blobs if key.endswith(target.path.rsplit("/", 1)[1])]
            self.twin.tuf.blobs[key] = data
            self._offer(target)

        return Case(kind, target.digest, set_up)

    def _tampered_delta(self, kind: str) -> Case:
        """A delta that was changed on its way; the whole bundle is not to be had either."""
        target = self._release(self._good)
        self.twin.release_delta(self._running.read_bytes(), self._base.digest, self._good.read_bytes(), target.digest)
        name = delta_path(target.digest, self._base.digest).rsplit("/", 1)[1]

        def set_up() -> None:
            for key, blob in list(self.twin.tuf.blobs.items()):
                if key.endswith(name):
                    at = self._random.randrange(len(blob))
                    self.twin.tuf.blobs[key] = blob[:at] + bytes([blob[at] ^ 8]) + blob[at + 1 :]
                if key.endswith(target.path.rsplit("/", 1)[1]):
                    del self.twin.tuf.blobs[key]
            self._offer(target)

        return Case(kind, target.digest, set_up)

    def _replayed(self, kind: str) -> Case:
        """Metadata of before, served again when the device has seen newer ones; they name the target."""
        target = self._release(self._good)
        files = dict(self.twin.tuf.files)
        self.twin.tuf.publish()
        self._see_metadata()

        def set_up() -> None:
            self.twin.tuf.files = {**files, "timestamp.json": files["timestamp.json"]}
            self._offer(target)

        return Case(kind, target.digest, set_up)

    def _expired(self, kind: str) -> Case:
        target = self._release(self._good)

        def set_up() -> None:
            self.twin.tuf.publish(expires=datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=5))
            self._offer(target)

        return Case(kind, target.digest, set_up)

    def _unsigned(self, kind: str) -> Case:
        target = self._release(self._good).model_copy(update={"path": "bundles/never-signed.elb"})
        return Case(kind, target.digest, lambda: self._offer(target))

    def _replayed_state(self, kind: str) -> Case:
        target = self._release(self._good)
        old = self.twin.set_state(epoch=next(self._epochs), baseline=target)
        self._offer(self._base)
        self._talk()
        return Case(kind, target.digest, lambda: self.twin.serve_document(old))

    def _forged_state(self, kind: str) -> Case:
        target = self._release(self._good)
        epoch = next(self._epochs)
        forged = PlatformTwin().set_state(epoch=epoch, baseline=target, security_epoch_floor=0)
        return Case(kind, target.digest, lambda: self.twin.serve_document(forged))

    # inside

    def _older_epoch(self, kind: str) -> Case:
        """Signed and whole, of an older epoch; half of the offers tell the truth about it, half lie."""
        honest = self._release(self._older, EPOCH - 1)
        offer = honest if self._random.random() < 0.5 else honest.model_copy(update={"security_epoch": EPOCH})
        return Case(kind, honest.digest, lambda: self._offer(offer))

    def _mixed(self, kind: str) -> Case:
        """One piece of another release, with or without a manifest that admits it."""
        path = self._folder / f"mixed-{next(self._names)}.elb"
        path.write_bytes(mixed(self._good, self._next, self._random))
        target = self._signed(path, path.read_bytes(), EPOCH)
        return Case(kind, target.digest, lambda: self._offer(target))

    def _wrong_class(self, kind: str) -> Case:
        target = self._release(self._foreign)
        return Case(kind, target.digest, lambda: self._offer(target))

    def _other_digest(self, kind: str) -> Case:
        wrong = f"{self._random.getrandbits(384):096x}"
        target = self._release(self._good).model_copy(update={"digest": wrong})
        return Case(kind, wrong, lambda: self._offer(target))

    # sealed

    def _sealed(self, kind: str, make: Make) -> Case:
        data = self._good.read_bytes()
        digest = hashlib.sha384(data).hexdigest()
        offer = make(data, digest)
        self.twin.tuf.add(offer.path, offer.data, Chunks.of(offer.data).custom())
        version = f"sealed-{next(self._names)}"
        target = Target(
            path=offer.path,
            digest=digest,
            length=len(offer.data),
            release_version=version,
            security_epoch=offer.epoch,
        )

        def set_up() -> None:
            self.twin.wrong_envelope = offer.envelope
            self._offer(target)

        return Case(kind, digest, set_up)

    # the platform and the device

    def _compiled(self, name: str, model: Path = SEEDS / "v1.onnx", epoch: int = EPOCH) -> Path:
        return seed_bundle(self._folder / f"{name}.elb", model, f"1.0-{name}", epoch)

    def _foreign_class(self) -> Path:
        path = self._folder / "foreign.elb"
        parts = [(SEEDS / name).read_bytes() for name in ("v1.onnx", "quality.onnx", "observer.npz")]
        compile_bundle(*parts, ["npu-2t"], [(72, 88)], {}, path, "1.0-foreign", EPOCH)
        return path

    def _release(self, path: Path, epoch: int = EPOCH) -> Target:
        """Release under a new name, so that no memory of an earlier case decides."""
        return self._signed(path, path.read_bytes(), epoch)

    def _signed(self, path: Path, data: bytes, epoch: int) -> Target:
        digest = hashlib.sha384(data).hexdigest()
        return self.twin.release(data, digest, f"{path.stem}-{next(self._names)}", epoch)

    def _offer(self, target: Target) -> None:
        """A rollout with a name of its own, so that what failed before does not decide."""
        offer = {"id": f"r{next(self._names)}", "target": target.model_dump(), "salt": "s", "basis_points": 10_000}
        offers = [offer] if target is not self._base else []
        self.twin.set_state(epoch=next(self._epochs), baseline=self._base, rollouts=offers)

    def _talk(self) -> None:
        for _ in range(2):
            self.agent.sync()
            for _ in range(3):
                self.agent.step()
        self.agent.sync()

    def _see_metadata(self) -> None:
        """Let the device see the newest metadata, by an offer that it has."""
        other = self._base.model_copy(update={"digest": f"{self._random.getrandbits(384):096x}"})
        self._offer(other)
        self._talk()
        self._offer(self._base)
        self._talk()

    def _agent(self) -> Agent:
        disk, device = Disk(durable=False), self._folder / "device"
        plain = Transport(self.twin.url, in_process(self.twin), attempts=1, sleep=lambda seconds: None)
        identity = join(device, plain, TOKEN, TAGS, disk)
        settings = DeviceSettings(
            folder=device,
            factory=self._compiled("factory", epoch=0),
            observation=ObservationSettings(TAGS),
            loop=LoopSettings(trial=TRIAL, observe_every=1_000_000),
        )
        clock = SystemClock()
        shared = Shared(BundleStore(device / "bundles", disk, self.tee), RunnerLoader("npu-4t", clock))
        signed = plain.with_token(identity.access_token)
        patience = itertools.count(0.0, 10_000.0)
        agent = build_agent(
            settings, shared, clock, PictureSource(), NullSink(), disk, identity, signed, patience.__next__
        )
        platform = agent._parts.platform
        assert platform is not None
        platform.executor._repository.downloader._sleep = lambda seconds: None
        return agent


def besiege(folder: Path, tell: Callable[[float], None] = lambda share: None) -> Outcome:
    """Carry out every case."""
    outcome = Outcome()
    with _quiet():
        siege = Siege(folder)
        for case in siege.cases():
            outcome.cases[case.kind] += 1
            got_in, causes = siege.accepted(case)
            outcome.causes.setdefault(case.kind, Counter()).update(causes)
            if got_in:
                outcome.accepted.append(f"{case.kind} {outcome.cases[case.kind]}")
            tell(min(1.0, outcome.cases.total() / 400))
        outcome.left_base = siege.left_base
        outcome.last_good = siege.good_gets_in()
    return outcome


def mixed(one: Path, other: Path, chance: random.Random) -> bytes:
    """A bundle with one piece of another build: the manifest of the first, or one that names the foreign piece."""
    host, guest = Bundle.open(one), Bundle.open(other)
    pieces = {name: bytes(host.piece(name)) for name in host.names}
    built = [name for name in pieces if name in guest.names and name.endswith((".npu", ".json"))]
    swapped = chance.choice(built)
    pieces[swapped] = bytes(guest.piece(swapped))
    manifest = host.manifest
    if chance.random() < 0.5:
        records = {name: PieceRecord.of(data) for name, data in pieces.items()}
        manifest = Manifest(manifest.build_id, manifest.release_version, manifest.security_epoch, records)
    stream = io.BytesIO()
    _write_zip(stream, {MANIFEST: manifest.to_bytes(), **pieces})
    zipfile.ZipFile(stream).testzip()
    return stream.getvalue()


@contextmanager
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
