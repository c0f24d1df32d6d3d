"""Business errors of the releases service, as problem documents.

Problem
├── EnrolmentRefused   401  the enrolment token is wrong, used up or expired
├── KeyRefused         403  this device gets no key for this bundle
├── DeviceKeyRefused   403  the device's new key is not accepted
├── UnknownBundle      404
├── UnknownRollout     404
├── UnknownLayer       404
├── UnknownDevice      404
├── WrongState         409  the rollout's state does not allow the action
├── NobodyMatches      409  the selector matches no device, or devices that the bundle was not built for
├── LayerFull          409  the layer has no free part of that size
├── NotApproved        409  a second person has to approve it first
├── NotReleasable      409  the build did not pass its gate, or the bundle was revoked or rolled back before
├── ActionGone         410  the DDI action has ended
├── VersionMismatch    412  somebody else changed it first
├── HashMismatch       412  the artifact is not the one that was asked for
├── BadSelector        422
├── BadBundle          422
├── BuildsUnavailable  503
└── KeysUnusable       503  a master or signing key is missing or wrong; an operator has to restore it
"""

from __future__ import annotations

from services.kit.problems import Conflict, Forbidden, MalformedPayload, NotFound, Problem, Unauthorized, Unavailable


class EnrolmentRefused(Unauthorized):
    slug, title = "enrolment-refused", "The enrolment token does not let this device in"


class KeyRefused(Forbidden):
    slug, title = "key-refused", "The device gets no key for this bundle"


class DeviceKeyRefused(Forbidden):
    slug, title = "device-key-refused", "The device's new key is not accepted"


class KeysUnusable(Unavailable):
    slug, title = "keys-unusable", "A key of the platform cannot be used"


class UnknownBundle(NotFound):
    slug, title = "unknown-bundle", "No such bundle is registered"


class UnknownRollout(NotFound):
    slug, title = "unknown-rollout", "There is no such rollout"


class UnknownLayer(NotFound):
    slug, title = "unknown-layer", "There is no such layer"


class LayerFull(Conflict):
    slug, title = "layer-full", "The layer has no room for this"


class NotApproved(Conflict):
    slug, title = "not-approved", "A second person has to approve it first"


class UnknownDevice(NotFound):
    slug, title = "unknown-device", "There is no such device"


class WrongState(Conflict):
    slug, title = "wrong-rollout-state", "The rollout's state does not allow this"


class NobodyMatches(Conflict):
    slug, title = "nobody-matches", "The rollout would reach no device that can run the bundle"


class NotReleasable(Conflict):
    slug, title = "not-releasable", "The bundle may not be released"


class ActionGone(Problem):
    status, slug, title = 410, "action-gone", "The action is no longer active"


class HashMismatch(Problem):
    status, slug, title = 412, "hash-mismatch", "The artifact is another one"


class VersionMismatch(Problem):
    status, slug, title = 412, "version-mismatch", "Somebody else changed it first"


class BadSelector(MalformedPayload):
    slug, title = "bad-selector", "The selector or the stages make no sense"


class BadBundle(MalformedPayload):
    slug, title = "bad-bundle", "The file is not a usable bundle"


class BuildsUnavailable(Unavailable):
    slug, title = "builds-unavailable", "The builds service does not answer"
