"""Errors of the builds service, split by what the caller can do.

Problem
├── DamagedPart       422  a part of the upload does not parse: export and send it again
├── BadBuildRequest   422  the meta part names something that does not exist
├── DamagedSet        422  the evaluation set does not parse
├── PartTooLarge      413  one part is over its own bound
├── NoSuchBuild       404
├── NoSuchProfile     404  the bundle has fewer profiles
├── NotReady          409  bundle or evidence does not exist yet (or never will)
├── NotPassed         409  only a build that passed the gate becomes production
└── TooManySets       409  the store of evaluation sets is full
"""

from __future__ import annotations

from services.kit.problems import Conflict, MalformedPayload, NotFound, TooLarge


class DamagedPart(MalformedPayload):
    slug, title = "damaged-part", "A part of the upload cannot be read"


class BadBuildRequest(MalformedPayload):
    slug, title = "bad-build-request", "The build request names something that does not exist"


class DamagedSet(MalformedPayload):
    slug, title = "damaged-evaluation-set", "The evaluation set cannot be read"


class PartTooLarge(TooLarge):
    slug, title = "part-too-large", "A part of the upload is larger than allowed"


class NoSuchBuild(NotFound):
    slug, title = "no-such-build", "There is no such build"


class NoSuchProfile(NotFound):
    slug, title = "no-such-profile", "The bundle has no such profile"


class NotReady(Conflict):
    slug, title = "not-ready", "The build has no such result"


class NotPassed(Conflict):
    slug, title = "not-passed", "The build did not pass the gate"


class TooManySets(Conflict):
    slug, title = "too-many-sets", "The store of evaluation sets is full"
