"""What all light devices of a process share: documents that were verified once, and where targets lie."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from contracts.state import DeviceState, UnknownSigner, verify_state
from contracts.state_keys import STATE_KEY_TARGET, KeyListError, StateKeyList, decode_list
from edge_agent.errors import TrustError
from edge_agent.simulated.http import LightClient

METADATA = "/releases/tuf/metadata/"
TARGETS = "/releases/tuf/targets/"
Json = dict[str, Any]  # Any: JSON


@dataclass(frozen=True)
class TargetFile:
    """Where a target's bytes are, how many, and their SHA-256."""

    url: str
    length: int
    sha256: str


class SharedDocuments:
    """State documents by their bytes: each is verified once, by the key of enrolment or the list that followed it."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._keys: tuple[Ed25519PublicKey, ...] = (key,)
        self._serial = 0
        self.learning = asyncio.Lock()
        self._known: dict[bytes, DeviceState] = {}

    def believe(self, found: StateKeyList) -> None:
        """From now on these keys count. Raises TrustError for a list that is older than the last one."""
        if found.serial < self._serial:
            raise TrustError(f"the list of state keys has serial {found.serial}, older than {self._serial}")
        self._keys, self._serial = found.trusted(time.time()), found.serial
        self._known.clear()

    def knows_signer(self, document: bytes) -> bool:
        """Whether a key that counts signed it."""
        try:
            self.state(document)
        except UnknownSigner:
            return False
        return True

    def state(self, document: bytes) -> DeviceState:
        """The document's content. Raises UnknownSigner, StateError."""
        known = self._known.get(document)
        if known is None:
            known = verify_state(document, self._keys, 0)
            if len(self._known) > 8:
                self._known.clear()
            self._known[document] = known
        return known


class SharedTargets:
    """Target files by path, from the newest targets metadata."""

    def __init__(self, client: LightClient) -> None:
        self._client = client
        self._files: dict[str, TargetFile] = {}

    async def find(self, path: str) -> TargetFile:
        """Where a target is. Raises TrustError when the repository does not name it."""
        if path not in self._files:
            await self._read()
        if path not in self._files:
            raise TrustError(f"the update repository names no target {path}")
        return self._files[path]

    async def state_keys(self, headers: dict[str, str]) -> StateKeyList:
        """The newest list of keys of state documents. Raises TrustError, Unreachable."""
        await self._read()
        file = await self.find(STATE_KEY_TARGET)
        reply = await self._client.request("GET", file.url, headers)
        if reply.status != 200 or hashlib.sha256(reply.body).hexdigest() != file.sha256:
            raise TrustError(f"the list of state keys: status {reply.status}, or not the bytes that are signed")
        try:
            return decode_list(reply.body)
        except KeyListError as error:
            raise TrustError(str(error)) from error

    async def _read(self) -> None:
        timestamp = await self._metadata("timestamp.json")
        snapshot = await self._metadata(f"{timestamp['meta']['snapshot.json']['version']}.snapshot.json")
        targets = await self._metadata(f"{snapshot['meta']['targets.json']['version']}.targets.json")
        for path, found in targets["targets"].items():
            folder, _, name = path.rpartition("/")
            hashed = f"{found['hashes']['sha256']}.{name}"
            url = TARGETS + (f"{folder}/{hashed}" if folder else hashed)
            self._files[path] = TargetFile(url, found["length"], found["hashes"]["sha256"])

    async def _metadata(self, name: str) -> Json:
        reply = await self._client.request("GET", METADATA + name)
        if reply.status != 200:
            raise TrustError(f"metadata {name}: status {reply.status}")
        signed: Json = json.loads(reply.body)["signed"]
        return signed
