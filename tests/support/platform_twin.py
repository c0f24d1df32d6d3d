"""A twin of the platform's device side: enrolment, signed state, feedback, uploads and a real TUF repository.

It speaks HTTP on a loopback port, keeps everything in memory, and can be made to misbehave the way networks and
attackers do: break off, tamper, throttle, be away, serve old or expired metadata.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import (
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)

from contracts.bundle import Bundle
from contracts.bundle.chunks import Chunks
from contracts.bundle.delta import delta_path, make_delta
from contracts.state import DeviceState, Target, public_key, public_text, sign_state
from contracts.wire import EnrolmentRequest, FeedbackBatch, SegmentUpload
from contracts.wire.keys import BundleKeyRequest, signed_request
from tests.support.sealing_twin import Sealer

ROLES = ("root", "timestamp", "snapshot", "targets")
TOKEN = "one-time-token-of-the-twin"


class TufTwin:
    """A small TUF repository in memory, signed with keys of its own."""

    def __init__(self) -> None:
        self._signers = {role: CryptoSigner.generate_ed25519() for role in ROLES}
        self.files: dict[str, bytes] = {}
        self.blobs: dict[str, bytes] = {}
        self._targets: dict[str, TargetFile] = {}
        self._version = 0
        self._root = self._make_root()
        self.publish()

    @property
    def trusted_root(self) -> str:
        return self.files["1.root.json"].decode()

    def add(self, path: str, data: bytes, custom: Mapping[str, str | int] | None = None) -> None:
        """Release a target; `custom` goes into its signed metadata."""
        target = TargetFile.from_data(path, data, ["sha256"])
        if custom:
            target.unrecognized_fields["custom"] = dict(custom)
        self._targets[path] = target
        folder, _, name = path.rpartition("/")
        prefixed = f"{folder}/" if folder else ""
        self.blobs[f"{prefixed}{target.hashes['sha256']}.{name}"] = data
        self.publish()

    def publish(self, expires: datetime | None = None) -> None:
        """Write new targets, snapshot and timestamp metadata."""
        self._version += 1
        version, expires = self._version, expires or _later()
        targets = Targets(version=version, expires=expires, targets=dict(self._targets))
        self._write("targets", Metadata(targets), f"{version}.targets.json")
        snapshot = Snapshot(version=version, expires=expires, meta={"targets.json": MetaFile(version)})
        self._write("snapshot", Metadata(snapshot), f"{version}.snapshot.json")
        timestamp = Timestamp(version=version, expires=expires, snapshot_meta=MetaFile(version))
        self._write("timestamp", Metadata(timestamp), "timestamp.json")

    def _make_root(self) -> Root:
        root = Root(version=1, expires=_later(), consistent_snapshot=True)
        for role, signer in self._signers.items():
            root.add_key(signer.public_key, role)
        self._write("root", Metadata(root), "1.root.json")
        return root

    def _write(self, role: str, metadata: Metadata, name: str) -> None:
        metadata.sign(self._signers[role])
        self.files[name] = metadata.to_bytes()


def _later() -> datetime:
    return datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)


@dataclass
class Misbehaviour:
    """What goes wrong, by path prefix. A number of bytes after which a target breaks off, statuses in turn."""

    away: bool = False
    statuses: dict[str, list[int]] = field(default_factory=dict)
    retry_after: str = "0"
    break_off: list[int] = field(default_factory=list)
    flip_target: bool = False
    ignore_range: bool = False


class PlatformTwin:
    """The server. Use it as a context manager; `url` is its address."""

    def __init__(self) -> None:
        self.tuf = TufTwin()
        self.state_key = Ed25519PrivateKey.generate()
        self.wrong = Misbehaviour()
        self.tokens: dict[str, int] = {TOKEN: 1_000}
        self.devices: dict[str, EnrolmentRequest] = {}
        self.access: dict[str, str] = {}
        self.batches: list[tuple[str, FeedbackBatch]] = []
        self.reports: list[bytes] = []
        self.segments: dict[str, SegmentUpload] = {}
        self.requests: Counter[str] = Counter()
        self.ranges: list[str] = []
        self.with_chunks = False
        self.sealer: Sealer | None = None
        self.seals = True
        self.sealing_keys: dict[str, str] = {}
        self.wrong_envelope: bytes | None = None
        self._document = b""
        self.set_state()
        self.url = ""

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def state_key_text(self) -> str:
        return public_text(self.state_key.public_key())

    def release_delta(self, base: bytes, base_digest: str, result: bytes, result_digest: str) -> int:
        """Put the delta between two bundles into the repository; return its bytes."""
        if self.sealer is not None and self.seals:
            epoch = Bundle.of(memoryview(result), Path("result")).manifest.security_epoch
            path, sealed = self.sealer.delta(base, base_digest, result, result_digest, epoch)
            self.tuf.add(path, sealed, Chunks.of(sealed).custom())
            return len(sealed)
        delta = make_delta(base, result)
        self.tuf.add(delta_path(result_digest, base_digest), delta, Chunks.of(delta).custom())
        return len(delta)

    def set_state(self, epoch: int = 1, expires_in: int = 3_600, **fields: object) -> bytes:
        """Sign and serve a state document; return its bytes."""
        now = int(datetime.now(UTC).timestamp())
        state = DeviceState.model_validate({"epoch": epoch, "issued": now, "expires": now + expires_in, **fields})
        self._document = sign_state(state, self.state_key)
        return self._document

    def serve_document(self, document: bytes) -> None:
        """Serve these very bytes as the state document."""
        self._document = document

    def release(self, data: bytes, digest: str, version: str, security_epoch: int = 1) -> Target:
        """Put a bundle into the TUF repository and return what a state document says of it."""
        path = f"bundles/{version}.elb"
        if self.sealer is not None and self.seals:
            path, data = self.sealer.bundle(data, digest, security_epoch)
        self.tuf.add(path, data, Chunks.of(data).custom() if self.with_chunks else None)
        return Target(
            path=path,
            digest=digest,
            length=len(data),
            release_version=version,
            security_epoch=security_epoch,
        )

    @property
    def installs(self) -> list[tuple[str, str]]:
        """(stage, cause) of every install event, in order."""
        return [(event.stage.value, event.cause.value) for _, batch in self.batches for event in batch.installs]

    # answers, called by the handler

    def get(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if path == "/releases/v1/state":
            etag = f'"{hash(self._document) & 0xFFFFFFFF:08x}"'
            if headers.get("If-None-Match") == etag:
                return 304, {"ETag": etag}, b""
            return 200, {"ETag": etag, "Content-Type": "application/json"}, self._document
        if path.startswith("/releases/tuf/metadata/"):
            body = self.tuf.files.get(path.removeprefix("/releases/tuf/metadata/"))
            return (404, {}, b"") if body is None else (200, {}, body)
        if path.startswith("/releases/tuf/targets/"):
            return self._target(path.removeprefix("/releases/tuf/targets/"), headers.get("Range", ""))
        return 404, {}, b""

    def post(self, path: str, body: bytes, device: str) -> tuple[int, dict[str, str], bytes]:
        if path == "/releases/v1/enrolments":
            return self._enrol(body)
        if path == "/releases/v1/feedback":
            self.batches.append((device, FeedbackBatch.model_validate_json(body)))
            return 202, {}, b"{}"
        if path == "/telemetry/v1/reports":
            self.reports.append(body)
            return 202, {}, b'{"accepted": true, "duplicate": false}'
        if path == "/telemetry/v1/segments":
            segment = SegmentUpload.model_validate_json(body)
            self.segments[segment.segment_id] = segment
            return 202, {}, b'{"accepted": true, "duplicate": false}'
        if path == "/releases/v1/bundle-keys":
            return self._key(BundleKeyRequest.model_validate_json(body), device)
        return 404, {}, b""

    def _key(self, request: BundleKeyRequest, device: str) -> tuple[int, dict[str, str], bytes]:
        sealing = base64.b64decode(request.sealing_key)
        joined = self.devices[device]
        identity = public_key(joined.public_key)
        identity.verify(base64.b64decode(request.signature), signed_request(request.path, sealing))
        pinned = self.sealing_keys.setdefault(device, request.sealing_key)
        made = self.wrong_envelope
        if made is None and self.sealer is not None:
            made = self.sealer.envelope(request.path, sealing, joined.tags.device_class)
        if made is None or pinned != request.sealing_key:
            return 403, {}, b"{}"
        envelope = base64.b64encode(made).decode()
        answer = {"envelope": envelope, "device_class": joined.tags.device_class, "generation": 1}
        return 200, {}, json.dumps(answer).encode()

    def _enrol(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        request = EnrolmentRequest.model_validate_json(body)
        if self.tokens.get(request.token, 0) < 1:
            return 403, {}, b'{"title": "token used up"}'
        self.tokens[request.token] -= 1
        device = f"device-{len(self.devices):04d}"
        self.devices[device] = request
        self.access[f"access-{device}"] = device
        answer = {
            "device_id": device,
            "access_token": f"access-{device}",
            "tuf_root": self.tuf.trusted_root,
            "state_key": self.state_key_text,
        }
        return 201, {}, json.dumps(answer).encode()

    def _target(self, name: str, asked: str) -> tuple[int, dict[str, str], bytes]:
        data = self.tuf.blobs.get(name)
        if data is None:
            return 404, {}, b""
        if self.wrong.flip_target:
            data = data[:-1] + bytes([data[-1] ^ 1])
        match = re.fullmatch(r"bytes=(\d+)-", asked)
        if match is None or self.wrong.ignore_range:
            return 200, {}, data
        self.ranges.append(asked)
        start = int(match.group(1))
        if start >= len(data):
            return 416, {}, b""
        return 206, {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}, data[start:]


def in_process(twin: PlatformTwin) -> httpx.Client:
    """Return a client that reaches the twin without a socket; misbehaviour of connections is not modelled."""

    def answer(request: httpx.Request) -> httpx.Response:
        path, headers = request.url.path, {name.title(): value for name, value in request.headers.items()}
        device = twin.access.get(headers.get("Authorization", "").removeprefix("Bearer "), "")
        if twin.wrong.away:
            raise httpx.ConnectError("away", request=request)
        if path != "/releases/v1/enrolments" and not device:
            return httpx.Response(401)
        if request.method == "GET":
            status, found, body = twin.get(path, headers)
        else:
            status, found, body = twin.post(path, request.read(), device)
        return httpx.Response(status, headers=found, stream=httpx.ByteStream(body))

    return httpx.Client(transport=httpx.MockTransport(answer))


def _handler(twin: PlatformTwin) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self._allowed():
                self._answer(*twin.get(self.path, dict(self.headers)))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if self._allowed():
                self._answer(*twin.post(self.path, body, self._device()))

        def _device(self) -> str:
            return twin.access.get(self.headers.get("Authorization", "").removeprefix("Bearer "), "")

        def _allowed(self) -> bool:
            twin.requests[self.path] += 1
            if twin.wrong.away:
                self.close_connection = True
                return False
            for prefix, statuses in twin.wrong.statuses.items():
                if self.path.startswith(prefix) and statuses:
                    self._answer(statuses.pop(0), {"Retry-After": twin.wrong.retry_after}, b"{}")
                    return False
            if self.path != "/releases/v1/enrolments" and not self._device():
                self._answer(401, {}, b'{"title": "unknown token"}')
                return False
            return True

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 304:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if "/targets/" in self.path and twin.wrong.break_off and status in (200, 206):
                self.wfile.write(body[: twin.wrong.break_off.pop(0)])
                self.close_connection = True
                return
            if status != 304:
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return None

    return Handler
