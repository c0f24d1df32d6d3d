"""Debian's SWUpdate as a DDI client: signed images for it, the running program, and a network that misbehaves."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs7
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from embedded.ports import HOST

BINARY = shutil.which("swupdate")
INSTALLED = "installed.elb"
PATIENCE_S = 90.0


@dataclass(frozen=True)
class Signer:
    """A device maker's key and certificate, good for CMS signatures."""

    key: rsa.RSAPrivateKey
    certificate: x509.Certificate

    @staticmethod
    def fresh() -> Signer:
        """A new, self-signed one."""
        key, now = rsa.generate_private_key(public_exponent=65_537, key_size=2_048), datetime.now(UTC)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "device maker")])
        built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        built = built.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
        built = built.not_valid_after(now + timedelta(days=2))
        built = built.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        use = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION])
        return Signer(key, built.add_extension(use, critical=False).sign(key, hashes.SHA256()))

    def sign(self, data: bytes) -> bytes:
        """A detached CMS signature in DER."""
        options = [
            pkcs7.PKCS7Options.DetachedSignature,
            pkcs7.PKCS7Options.Binary,
            pkcs7.PKCS7Options.NoCapabilities,
        ]
        built = pkcs7.PKCS7SignatureBuilder().set_data(data)
        built = built.add_signer(self.certificate, self.key, hashes.SHA256())
        return built.sign(serialization.Encoding.DER, options)

    def pem(self) -> bytes:
        """The certificate for the device."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def image(bundle: bytes, signer: Signer, folder: Path, version: str = "1.0.0") -> bytes:
    """An archive that puts `bundle` into `folder` of the device."""
    description = f"""software = {{
  version = "{version}";
  hardware-compatibility: [ "1.0" ];
  files: ( {{
    filename = "bundle.elb";
    path = "{folder / INSTALLED}";
    type = "rawfile";
    sha256 = "{hashlib.sha256(bundle).hexdigest()}";
  }} );
}};
""".encode()
    return archive(
        {"sw-description": description, "sw-description.sig": signer.sign(description), "bundle.elb": bundle}
    )


def archive(files: dict[str, bytes]) -> bytes:
    """A cpio archive of the kind crc."""
    out = bytearray()
    for number, (name, data) in enumerate([*files.items(), ("TRAILER!!!", b"")], start=1):
        last = name == "TRAILER!!!"
        mode, links, check = (0, 1, 0) if last else (0o100644, 1, sum(data) & 0xFFFFFFFF)
        fields = [0 if last else number, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name) + 1, check]
        out += b"070702" + "".join(f"{one:08X}" for one in fields).encode() + name.encode() + b"\0"
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out) + bytes(-len(out) % 512)


@dataclass
class Network:
    """A proxy before the platform. Of a download `cut_at` bytes pass, once; the byte `flip_at` is changed on the way;
    `slow_s` is waited before each piece.
    """

    server: int
    cut_at: int | None = None
    flip_at: int | None = None
    slow_s: float = 0.0
    requests: list[str] = field(default_factory=list)
    port: int = 0

    def ranges(self) -> list[str]:
        """The ranges that downloads asked for."""
        lines = [line for head in self.requests if "/artifacts/" in head for line in head.split("\r\n")]
        return [line.partition(":")[2].strip() for line in lines if line.lower().startswith("range:")]

    @contextmanager
    def running(self) -> Iterator[Network]:
        """Serve on a port of its own."""
        with socket.create_server((HOST, 0)) as listener:
            self.port = listener.getsockname()[1]
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            yield self

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        with client, socket.create_connection((HOST, self.server)) as upstream:
            heads: list[str] = []
            up = threading.Thread(target=self._up, args=(client, upstream, heads), daemon=True)
            up.start()
            try:
                self._down(upstream, client, heads)
            except OSError:
                return
            finally:
                for end in (client, upstream):
                    _hang_up(end)

    def _up(self, client: socket.socket, upstream: socket.socket, heads: list[str]) -> None:
        try:
            while data := client.recv(65_536):
                if data.split(b" ", 1)[0] in (b"GET", b"PUT", b"POST"):
                    heads.append(data.split(b"\r\n\r\n")[0].decode("latin-1"))
                    self.requests.append(heads[-1])
                upstream.sendall(data)
            upstream.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def _down(self, upstream: socket.socket, client: socket.socket, heads: list[str]) -> None:
        passed = 0
        while data := upstream.recv(8_192):
            download = bool(heads) and "/artifacts/" in heads[-1]
            if download:
                time.sleep(self.slow_s)
                data = self._flipped(data, passed)
                passed += len(data)
            if download and self.cut_at is not None and passed > self.cut_at:
                self.cut_at = None
                return
            client.sendall(data)

    def _flipped(self, data: bytes, passed: int) -> bytes:
        if self.flip_at is None or not passed <= self.flip_at < passed + len(data):
            return data
        place = self.flip_at - passed
        return data[:place] + bytes([data[place] ^ 0x01]) + data[place + 1 :]


def _hang_up(end: socket.socket) -> None:
    """Close for both directions, also under a thread that reads."""
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


@dataclass
class Client:
    """One device that runs SWUpdate."""

    name: str
    folder: Path
    token: str
    certificate: bytes
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        for part in ("run", "work"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        (self.folder / "certificate.pem").write_bytes(self.certificate)
        (self.folder / "swupdate.cfg").write_text(
            'globals:\n{\n  verbose = true;\n};\nidentify: ( { name = "device_class"; value = "npu-2t"; } );\n'
        )

    @property
    def installed(self) -> bytes | None:
        """What the device has installed."""
        path = self.folder / INSTALLED
        return path.read_bytes() if path.exists() else None

    @property
    def log(self) -> str:
        """The end of what the program said."""
        path = self.folder / "log"
        return path.read_text(errors="replace")[-6_000:] if path.exists() else ""

    @contextmanager
    def polling(self, port: int, *, confirm: int | None = None) -> Iterator[None]:
        """Run the program until the block ends; `confirm` tells it what became of the last installation."""
        options = f"-t DEFAULT -u http://{HOST}:{port}/releases/ddi -i {self.name} -g {self.token} -p 1 -r 8 -w 1"
        options += f" -c {confirm}" if confirm is not None else ""
        words = [str(BINARY), "-v", "-f", str(self.folder / "swupdate.cfg"), "-H", "edgeloop:1.0"]
        words += ["-k", str(self.folder / "certificate.pem"), "-u", options]
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "TMPDIR": str(self.folder / "work"),
            "RUNTIME_DIRECTORY": str(self.folder / "run"),
        }
        with (self.folder / "log").open("ab") as log:
            self.process = process = subprocess.Popen(
                words, stdout=log, stderr=log, env=environment, cwd=self.folder, start_new_session=True
            )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait(reached: Callable[[], bool], client: Client, what: str) -> None:
    """Until `reached`; fails with the client's log."""
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        ended = client.process is not None and client.process.poll() is not None
        if ended or time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen in {PATIENCE_S:.0f} s; SWUpdate said:\n{client.log}")
        time.sleep(0.1)
