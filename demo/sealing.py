"""The demo's platform seals its bundles: one call makes the master key, as an operator would."""

from __future__ import annotations

import httpx

from demo.errors import DemoError

TIMEOUT_S = 30.0


def seal_bundles(base_url: str, operator_token: str) -> None:
    """Make the first master key, so that every bundle from now on travels and lies sealed. Raises DemoError."""
    answer = httpx.post(
        f"{base_url}/releases/v1/content-keys/rotations",
        json={"reason": "the demo's bundles are sealed"},
        headers={"Authorization": f"Bearer {operator_token}"},
        timeout=TIMEOUT_S,
        trust_env=False,
    )
    if answer.status_code != 201:
        raise DemoError(f"the platform made no master key ({answer.status_code} {answer.text[:200]}); see its logs")
