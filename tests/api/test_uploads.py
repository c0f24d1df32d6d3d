"""Binary bodies: real ones, cut, doubled, with bits turned and lengths that lie. The sender's fault, never a 5xx.

schemathesis sends any bytes there; most of a parser is reached only by bytes that are almost right.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from services.kit.discovery import SERVICES
from tests.api.conftest import DRF1, OCTETS, ONE_EACH, Site
from tests.api.documents import document_of
from tests.builds import support
from tests.releases.world import bundle_bytes
from tests.support.messages import report_bytes
from tests.support.models import quality_qdq, vsr_qdq

EXAMPLES = int(os.environ.get("EDGELOOP_FUZZ_EXAMPLES", "8"))
SEED = int(os.environ.get("EDGELOOP_FUZZ_SEED", "20261130"))
META = {"name": "vsr", "release_version": "1.0", "targets": ["npu-4t"], "profiles": [[48, 64]]}
Send = Callable[[httpx.Client, Site, bytes], httpx.Response]


def raw(path: str, headers: dict[str, str] = OCTETS, method: str = "POST", device: bool = False) -> Send:
    """A route whose body is the bytes."""

    def send(web: httpx.Client, site: Site, data: bytes) -> httpx.Response:
        token = site.device if device else site.operator
        where = path.replace("{digest}", site.known["digest"][0])
        return web.request(method, where, content=data, headers={**headers, "Authorization": f"Bearer {token}"})

    return send


def part(changed: str) -> Send:
    """The route of builds, with one of its parts changed and the others right."""

    def send(web: httpx.Client, site: Site, data: bytes) -> httpx.Response:
        files = {**_parts(), changed: data}
        headers = {"Authorization": f"Bearer {site.operator}"}
        return web.post("/builds/v1/builds", files=files, data={"meta": json.dumps(META)}, headers=headers)

    return send


def log_of(web: httpx.Client, site: Site, data: bytes) -> httpx.Response:
    """Evidence whose manifest names a log of these bytes, cut in the middle of the manifest now and then."""
    log = {"name": "raw.jsonl", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest = {
        "id": f"e-{hashlib.sha256(data).hexdigest()[:12]}",
        "summary": "latency",
        "measured_on": "2026-11-30",
        "devices": ["X1"],
        "test_sets": [{"name": "clips", "bytes": 1, "md5": "0" * 32, "sha256": "0" * 64}],
        "scripts": [{"name": "bench.py", "version": "1"}],
        "logs": [log],
    }
    text = json.dumps(manifest)
    form = {"manifest": text[: len(text) - data[0] if data else 0]}
    files = {"logs": ("raw.jsonl", data)}
    headers = {"Authorization": f"Bearer {site.operator}"}
    return web.post("/claims/v1/evidence", files=files, data=form, headers=headers)


ROUTES: dict[str, tuple[str, Send, Callable[[Path], bytes]]] = {
    "bundle": ("/releases/v1/bundles/uploads", raw("/releases/v1/bundles/uploads"), bundle_bytes),
    "image": (
        "/releases/v1/ddi/images/{digest}",
        raw("/releases/v1/ddi/images/{digest}", method="PUT"),
        lambda folder: b"070702" + b"0" * 104 + bundle_bytes(folder),
    ),
    "report": (
        "/telemetry/v1/reports",
        raw("/telemetry/v1/reports", DRF1, device=True),
        lambda _folder: report_bytes(),
    ),
    "set": ("/builds/v1/evaluation-sets", raw("/builds/v1/evaluation-sets"), lambda _folder: support.evaluation_npz()),
    "observer of drift": ("/drift/v1/observers", raw("/drift/v1/observers"), lambda _folder: support.observer_npz()),
    "log of evidence": ("/claims/v1/evidence", log_of, lambda _folder: b'\x00{"ms": 25}\n' * 100),
    "model": ("/builds/v1/builds", part("model"), lambda _folder: _parts()["model"]),
    "quality": ("/builds/v1/builds", part("quality"), lambda _folder: _parts()["quality"]),
    "observer of a build": ("/builds/v1/builds", part("observer"), lambda _folder: _parts()["observer"]),
}


@pytest.fixture(scope="module")
def web(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.url, trust_env=False, timeout=120, limits=ONE_EACH) as client:
        yield client


def test_every_route_that_takes_bytes_is_here() -> None:
    taking = set()
    for service in SERVICES:
        for path, item in document_of(service)["paths"].items():
            for operation in item.values():
                content = operation.get("requestBody", {}).get("content", {})
                if any(media in {"application/octet-stream", "multipart/form-data"} for media in content):
                    taking.add(path)
    assert taking == {path for path, _, _ in ROUTES.values()}


@pytest.mark.parametrize("name", ROUTES)
def test_bytes_that_are_almost_right_are_refused_or_taken_and_never_fail(
    site: Site, web: httpx.Client, tmp_path: Path, name: str
) -> None:
    _, send, make = ROUTES[name]
    good, draw, wrong = make(tmp_path), random.Random(f"{SEED}/{name}"), []
    for index in range(4 * EXAMPLES):
        data = _changed(good, draw)
        with capture_logs():
            answer = send(web, site, data)
        if answer.status_code >= 500:
            wrong.append(f"{name} {index}: {answer.status_code} {answer.text[:300]}")
    assert not wrong


@pytest.mark.parametrize("name", [name for name in ROUTES if "observer" in name or name == "set"])
def test_an_archive_that_unpacks_to_more_than_it_says_is_refused(
    site: Site, web: httpx.Client, tmp_path: Path, name: str
) -> None:
    """A directory that lies, a member that is another kind of thing, one that is packed a thousandfold."""
    _, send, make = ROUTES[name]
    good = zipfile.ZipFile(io.BytesIO(make(tmp_path)))
    member = good.namelist()[0]
    for content in (b"", b"\x93NUMPY\x09\x00", b"\x93NUMPY\x01\x00\xff\xff{", bytes(64 << 20), b"(lp0\nS'x'\np1\na."):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
            for other in good.namelist():
                packed.writestr(other, content if other == member else good.read(other))
        with capture_logs():
            answer = send(web, site, buffer.getvalue())
        assert 400 <= answer.status_code < 500, f"{content[:8]!r}: {answer.status_code} {answer.text[:300]}"


def _parts() -> dict[str, bytes]:
    if not _CACHE:
        model = vsr_qdq(channels=8, mid=8, blocks=1)
        _CACHE.update(model=model, quality=quality_qdq(), observer=support.observer_npz())
    return _CACHE


_CACHE: dict[str, bytes] = {}


def _changed(good: bytes, draw: random.Random) -> bytes:
    data = bytearray(good)
    match draw.randrange(6):
        case 0:
            return good[: draw.randrange(len(good))]
        case 1:
            return good + good[: draw.randrange(len(good))]
        case 2:
            for _ in range(draw.randrange(1, 9)):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        case 3:
            at = draw.randrange(max(1, len(data) - 8))
            data[at : at + 8] = draw.choice([b"\xff" * 8, bytes(8), (2**63).to_bytes(8, "little"), b"\x7f" * 8])
        case 4:
            at = draw.randrange(len(data))
            del data[at : at + draw.randrange(1, 64)]
        case _:
            at = draw.randrange(min(len(data), 256))
            data[at] = draw.randrange(256)
    return bytes(data)
