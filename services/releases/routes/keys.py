"""Keys: content keys for devices, master and signing keys for operators. No route ever gives a key in clear."""

from typing import Annotated

from fastapi import APIRouter

from contracts.wire.enrolment import DeviceKeyRotated, DeviceKeyRotation
from contracts.wire.keys import (
    BundleKey,
    BundleKeyRequest,
    ContentKeys,
    KeyRevocation,
    SigningKeyRotation,
    StateKeyRevocation,
    StateKeys,
)
from contracts.wire.releases import OperatorAction
from services.kit.auth import Subject, requires
from services.kit.database import SessionDep
from services.kit.problems import Forbidden, MalformedPayload, NotFound, declare
from services.releases import ceremony, device_keys, key_desk, state_keys
from services.releases.errors import DeviceKeyRefused, KeyRefused, KeysUnusable, UnknownBundle, WrongState
from services.releases.keys import KeyUnusable

router = APIRouter(tags=["releases: keys"])
Reader = Annotated[Subject, requires("releases:read")]
Writer = Annotated[Subject, requires("releases:write")]


@router.post("/v1/bundle-keys", responses=declare(KeyRefused, Forbidden, KeysUnusable))
def request_bundle_key(
    request: BundleKeyRequest, subject: Annotated[Subject, requires("updates:read")], session: SessionDep
) -> BundleKey:
    """The content key of a sealed target, for the asking device's trusted environment alone."""
    if subject.kind != "device":
        raise Forbidden("content keys are for devices; use the device's own token")
    try:
        return key_desk.hand_out(session, subject.id, request)
    except KeyUnusable as error:
        raise KeysUnusable(str(error)) from error


@router.post("/v1/device-keys/rotations", responses=declare(DeviceKeyRefused, Forbidden))
def rotate_device_key(
    request: DeviceKeyRotation, subject: Annotated[Subject, requires("feedback:write")], session: SessionDep
) -> DeviceKeyRotated:
    """The asking device's new key takes the place of its old one; both prove themselves. A repeat changes nothing."""
    if subject.kind != "device":
        raise Forbidden("a device takes its new key itself; use the device's own token")
    return device_keys.rotate(session, subject, request)


@router.get("/v1/content-keys", responses=declare(KeysUnusable))
def get_content_keys(_subject: Reader, session: SessionDep) -> ContentKeys:
    """Whether bundles are sealed, and how many content keys each master key generation wraps."""
    try:
        return ceremony.status(session)
    except KeyUnusable as error:
        raise KeysUnusable(str(error)) from error


@router.post("/v1/content-keys/rotations", status_code=201, responses=declare(KeysUnusable))
def rotate_content_keys(action: OperatorAction, subject: Writer, session: SessionDep) -> ContentKeys:
    """Make the next master key generation and wrap every content key under it. The first one turns sealing on."""
    try:
        return ceremony.rotate(session, subject, action.reason)
    except KeyUnusable as error:
        raise KeysUnusable(str(error)) from error


@router.post(
    "/v1/content-keys/revocations",
    status_code=201,
    responses=declare(KeysUnusable, WrongState, UnknownBundle, NotFound, MalformedPayload),
)
def revoke_content_keys(request: KeyRevocation, subject: Writer, session: SessionDep) -> ContentKeys:
    """Destroy an old master key generation, or give the keys of a bundle, or any key to a device, no more."""
    try:
        return ceremony.revoke(session, subject, request)
    except KeyUnusable as error:
        raise KeysUnusable(str(error)) from error


@router.post("/v1/signing-keys/rotations", status_code=204, responses=declare(KeysUnusable, WrongState))
def rotate_signing_key(request: SigningKeyRotation, subject: Writer, session: SessionDep) -> None:
    """Replace the key of a role; devices follow by themselves, and the old key signs nothing any more."""
    try:
        ceremony.rotate_signing_key(session, subject, request)
    except KeyUnusable as error:
        raise KeysUnusable(str(error)) from error


@router.get("/v1/state-keys", responses=declare(KeysUnusable))
def get_state_keys(_subject: Reader, session: SessionDep) -> StateKeys:
    """The keys of the state document: which sign, up to when, and which have ended."""
    try:
        return state_keys.status(session)
    except KeyUnusable as error:
        raise KeysUnusable(str(error)) from error


@router.post("/v1/state-keys/revocations", status_code=201, responses=declare(KeysUnusable, WrongState, NotFound))
def revoke_state_key(request: StateKeyRevocation, subject: Writer, session: SessionDep) -> StateKeys:
    """End a key of the state document now; devices that read the list of keys believe it no more."""
    try:
        state_keys.revoke(session, subject, request.public, request.reason)
        return state_keys.status(session)
    except KeyUnusable as error:
        raise KeysUnusable(str(error)) from error
