"""Parts of addresses that come from a browser and go into an address of a service."""

from __future__ import annotations

import re

NOT_PLAIN = re.compile(r"[^A-Za-z0-9._:-]")


def segment(text: str) -> str:
    """One safe path segment."""
    plain = NOT_PLAIN.sub("", text)[:64]
    return plain if plain.strip(".") else "-"
