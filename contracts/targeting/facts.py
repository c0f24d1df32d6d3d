"""What rules may ask of a device, and where the answers come from."""

from __future__ import annotations

from collections.abc import Mapping

from contracts.device import DeviceTags

Facts = Mapping[str, str]

VERSION = "version"
TAGS = tuple(DeviceTags.model_fields)
NAMES = (*TAGS, VERSION)
ORDERED = frozenset({"driver", VERSION})
"""Names whose words are versions: they have an order, and 1.4 is 1.4.0."""
SYNONYMS = {"model": "device_class"}


def facts_of(tags: DeviceTags, agent_version: str = "") -> Facts:
    """Tags, and as `version` the version of the agent that runs on the device."""
    found: dict[str, str] = tags.model_dump()
    return {**found, VERSION: agent_version}
