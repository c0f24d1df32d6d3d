"""Images for SWUpdate devices: what may be handed in, and what devices are offered then."""

from __future__ import annotations

import hashlib

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.kit.database import transaction
from services.kit.models import AuditEntry
from services.releases.ddi.images import BadImage, check_image
from tests.releases.swupdate import archive
from tests.releases.test_ddi import Client, device, gateway, link_of
from tests.releases.world import World, bundle_bytes

__all__ = ["device", "gateway"]

BUNDLE = b"a bundle" * 40
GOOD = archive({"sw-description": b"x", "sw-description.sig": b"y", "bundle.elb": BUNDLE})


def hand_in(world: World, digest: str, data: bytes) -> httpx.Response:
    headers = {"Content-Type": "application/octet-stream"}
    path = f"/releases/v1/ddi/images/{digest}"
    return world.client.put(path, token=world.operator, content=data, headers=headers)


def test_an_image_holds_the_bundle_byte_for_byte_behind_its_description() -> None:
    check_image(GOOD, BUNDLE)
    for files, words in (
        ({"sw-description": b"x", "bundle.elb": BUNDLE[:-1]}, "byte for byte"),
        ({"bundle.elb": BUNDLE, "sw-description": b"x"}, "comes first"),
        ({}, "comes first"),
    ):
        with pytest.raises(BadImage, match=words):
            check_image(archive(files), BUNDLE)


@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=12))
def test_an_image_that_is_cut_or_changed_is_refused_or_still_holds_the_bundle(place: int, other: bytes) -> None:
    for data in (GOOD[:place], GOOD[:place] + other + GOOD[place + len(other) :]):
        try:
            check_image(data, BUNDLE)
        except BadImage:
            continue
        assert BUNDLE in data


@given(st.binary(max_size=400))
def test_no_bytes_are_an_image_by_chance(data: bytes) -> None:
    with pytest.raises(BadImage):
        check_image(data, BUNDLE)


def test_devices_are_offered_the_image_once_it_is_handed_in(world: World, device: Client) -> None:
    bundle = bundle_bytes(world.folder)
    digest = world.register(data=bundle)
    image = archive({"sw-description": b"x", "bundle.elb": bundle})
    answer = hand_in(world, digest, image)
    assert answer.status_code == 200
    assert answer.json()["filename"].endswith(".swu")
    assert hand_in(world, digest, image).json() == answer.json(), "the same again changes nothing"
    world.rollout(digest, stages=[10_000])
    job = device.get(link_of(device, "deploymentBase")).json()
    artifact = job["deployment"]["chunks"][0]["artifacts"][0]
    got = device.get(artifact["_links"]["download"]["href"].removeprefix("http://edgeloop.test"))
    assert got.content == image
    assert artifact["hashes"]["sha1"] == hashlib.sha1(image, usedforsecurity=False).hexdigest()
    with transaction() as session:
        assert session.query(AuditEntry).filter_by(action="ddi.image", subject=f"bundle:{digest}").count() == 1


def test_what_is_no_image_of_the_bundle_is_refused_and_none_is_changed_under_a_device(
    world: World, device: Client
) -> None:
    bundle = bundle_bytes(world.folder)
    digest = world.register(data=bundle)
    assert hand_in(world, digest, b"no archive").status_code == 422
    assert hand_in(world, digest, archive({"sw-description": b"x", "bundle.elb": b"another"})).status_code == 422
    assert hand_in(world, "0" * 96, b"x").status_code == 404
    world.rollout(digest, stages=[10_000])
    link_of(device, "deploymentBase")
    assert hand_in(world, digest, archive({"sw-description": b"x", "bundle.elb": bundle})).status_code == 409
