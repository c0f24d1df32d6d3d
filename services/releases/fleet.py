"""Questions about the devices: who is eligible, where they fall, what they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from contracts.state import Audience, bucket
from contracts.targeting import parse
from contracts.wire.releases import DeviceRecord
from services.kit.pages import PageRequest
from services.releases import counts
from services.releases.limits import SEARCH
from services.releases.models import Device
from services.releases.rule_sql import condition


@dataclass(frozen=True)
class Eligible:
    """Devices that an audience includes: buckets by class, and how many run a given bundle or any other.

    `outside`: places in the layer of devices that tags and rule include, but not the slice.
    """

    buckets: Mapping[str, Sequence[int]]
    already: int
    on_another: int
    outside: Sequence[int] = ()

    @property
    def count(self) -> int:
        return sum(len(places) for places in self.buckets.values())

    @property
    def sizes(self) -> dict[str, int]:
        return {name: len(places) for name, places in self.buckets.items()}


def eligible(session: Session, audience: Audience, salt: str, digest: str) -> Eligible:
    """Everyone the audience includes now, placed by `salt`."""
    buckets: dict[str, list[int]] = {}
    outside: list[int] = []
    already = on_another = 0
    layer = audience.layer
    for device_id, device_class, running in session.execute(matching(audience)):
        if layer is not None and not layer.holds(device_id):
            outside.append(bucket(layer.salt, device_id))
            continue
        buckets.setdefault(device_class, []).append(bucket(salt, device_id))
        already += running == digest
        on_another += bool(running) and running != digest
    return Eligible(buckets, already, on_another, outside)


@dataclass(frozen=True)
class Search:
    """Which devices: `text` begins the id, `running` the digest, the class is equal, the rule includes them.

    Empty means any.
    """

    text: str = ""
    device_class: str = ""
    running: str = ""
    rule: str = ""


@dataclass(frozen=True)
class Found:
    """A page of devices by id, and the id behind which the search goes on; None at the end of the fleet."""

    devices: Sequence[Device]
    behind: str | None


def page(session: Session, request: PageRequest, search: Search | None = None) -> Found:
    """Devices by id.

    A beginning of a digest is first made into the digests that devices run, which are few: each is then a range of the
    index, and a digest that nobody runs costs no walk over the fleet. No index knows a rule: a page looks at
    `SEARCH.devices` devices, may find fewer than asked for, or none, and goes on behind the last one looked at.
    """
    search = search or Search()
    query = select(Device).order_by(Device.id).limit(request.limit + 1)
    if search.text:
        query = query.where(Device.id >= search.text, Device.id.startswith(search.text, autoescape=True))
    if request.after is not None:
        query = query.where(Device.id > request.key(str)[0])
    last = None
    if search.rule:
        window = query.with_only_columns(Device.id).limit(1).offset(SEARCH.devices - 1)
        last = session.scalar(window)
        query = query.where(condition(parse(search.rule)))
        if last is not None:
            query = query.where(Device.id <= last)
    if search.device_class:
        query = query.where(Device.device_class == search.device_class)
    if search.running:
        digests = session.scalars(counts.running_like(search.running)).all()
        if not digests:
            return Found((), None)
        query = query.where(Device.running_digest.in_(digests))
    rows = session.scalars(query).all()
    return Found(rows[: request.limit], rows[request.limit - 1].id if len(rows) > request.limit else last)


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


def matching(audience: Audience) -> Select[str, str, str]:
    """Devices whose tags the audience includes, wherever they lie in its layer."""
    query = select(Device.id, Device.device_class, Device.running_digest)
    for name, values in audience.selector.items():
        query = query.where(Device.tags[name].astext.in_(list(values)))
    return query.where(condition(parse(audience.rule))) if audience.rule else query
