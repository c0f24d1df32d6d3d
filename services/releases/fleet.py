"""Questions about the devices: who is eligible, where they fall, what they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from contracts.device import DeviceTags
from contracts.state import bucket
from contracts.wire.releases import DeviceRecord
from services.kit.pages import PageRequest
from services.releases.errors import BadSelector
from services.releases.models import Device

Selector = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Eligible:
    """Devices that a selector matches: buckets by class, and how many run a given bundle or any other."""

    buckets: Mapping[str, Sequence[int]]
    already: int
    on_another: int

    @property
    def count(self) -> int:
        return sum(len(places) for places in self.buckets.values())

    @property
    def sizes(self) -> dict[str, int]:
        return {name: len(places) for name, places in self.buckets.items()}


def check_selector(selector: Selector) -> None:
    """Raise BadSelector for a tag that no device has or a tag without values."""
    unknown = sorted(set(selector) - set(DeviceTags.model_fields))
    if unknown:
        known = ", ".join(DeviceTags.model_fields)
        raise BadSelector(f"selector names unknown tags {', '.join(unknown)}; known tags: {known}")
    empty = sorted(name for name, values in selector.items() if not values)
    if empty:
        raise BadSelector(f"selector allows no value of {', '.join(empty)}; leave the tag out to allow all")


def eligible(session: Session, selector: Selector, salt: str, digest: str) -> Eligible:
    """Everyone the selector matches now, placed by `salt`."""
    buckets: dict[str, list[int]] = {}
    already = on_another = 0
    for device_id, device_class, running in session.execute(_matching(selector)):
        buckets.setdefault(device_class, []).append(bucket(salt, device_id))
        already += running == digest
        on_another += bool(running) and running != digest
    return Eligible(buckets, already, on_another)


@dataclass(frozen=True)
class Search:
    """Which devices: `text` begins the id, `running` the digest, the class is equal. Empty means any."""

    text: str = ""
    device_class: str = ""
    running: str = ""


def page(session: Session, request: PageRequest, search: Search | None = None) -> Sequence[Device]:
    """Devices by id, one more than the page."""
    query = select(Device).order_by(Device.id).limit(request.limit + 1)
    search = search or Search()
    if search.text:
        query = query.where(Device.id >= search.text, Device.id.startswith(search.text, autoescape=True))
    if search.device_class:
        query = query.where(Device.device_class == search.device_class)
    if search.running:
        query = query.where(Device.running_digest.startswith(search.running, autoescape=True))
    if request.after:
        query = query.where(Device.id > str(request.after[0]))
    return session.scalars(query).all()


def view(device: Device, polled: float | None) -> DeviceRecord:
    """A device as the API shows it; `polled` is its last poll, if one is known."""
    heard = [moment for moment in (polled, device.last_feedback) if moment is not None]
    return DeviceRecord(
        id=device.id,
        device_class=device.device_class,
        tags=device.tags,
        running_digest=device.running_digest,
        slot_stage=device.slot_stage,
        last_seen=max(heard) if heard else None,
        last_cause=device.last_cause,
    )


def _matching(selector: Selector) -> Select[str, str, str]:
    query = select(Device.id, Device.device_class, Device.running_digest)
    for name, values in selector.items():
        query = query.where(Device.tags[name].astext.in_(list(values)))
    return query
