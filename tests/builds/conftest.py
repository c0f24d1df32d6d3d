"""A platform with one evaluation set, and ways to send a build and to do its work."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from services.builds import work
from tests.builds import support
from tests.support.http import ApiClient
from tests.support.models import quality_qdq, vsr_qdq
from tests.support.platform import Tokens


@dataclass
class Studio:
    """Sends builds as the learning flow does."""

    client: ApiClient
    token: str
    model: bytes
    quality: bytes
    observer: bytes

    def add_set(self, data: bytes) -> str:
        """Upload an evaluation set; its id."""
        answer = self.client.post("/builds/v1/evaluation-sets", token=self.token, content=data)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def send(
        self, meta: dict[str, Any] | None = None, *, headers: dict[str, str] | None = None, **parts: bytes
    ) -> httpx.Response:
        """POST a build; `meta` and `parts` replace the usual ones."""
        body = {
            "name": "vsr",
            "release_version": "1.0",
            "targets": ["npu-4t"],
            "profiles": [[48, 64]],
            **(meta or {}),
        }
        files = {"model": self.model, "quality": self.quality, "observer": self.observer, **parts}
        return self.client.post(
            "/builds/v1/builds", token=self.token, files=files, data={"meta": json.dumps(body)}, headers=headers
        )

    def build(self, meta: dict[str, Any] | None = None, **parts: bytes) -> dict[str, Any]:
        """Send a build, do its work here and now, and give its final state."""
        answer = self.send(meta, **parts)
        assert answer.status_code == 202, answer.text
        build_id = answer.json()["id"]
        work.compile_step(build_id)
        work.gate_step(build_id)
        build = self.get(build_id)
        assert build["finished"] is not None, build["message"]
        return build

    def get(self, build_id: str) -> dict[str, Any]:
        """The build as the API shows it."""
        answer = self.client.get(f"/builds/v1/builds/{build_id}", token=self.token)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


@pytest.fixture(scope="module")
def studio(client: ApiClient, tokens: Tokens) -> Studio:
    """A studio with the sets `normal` and `hard-night`, on which its own model is perfect."""
    model = vsr_qdq(channels=8, mid=8, blocks=1)
    made = Studio(client, tokens.service, model, quality_qdq(), support.observer_npz())
    made.add_set(support.model_set(model))
    made.add_set(support.model_set(model, "hard-night"))
    return made
