"""Lists by pages: the address of the next page carries the filters and the service's own cursor."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode


def query_string(given: Mapping[str, str], cursor: str | None) -> str:
    """The query of the next page, or nothing on the last one."""
    return urlencode({**given, "cursor": cursor}) if cursor else ""


def filters(given: Mapping[str, str]) -> str:
    """The query of a list with filters."""
    return urlencode(given)
