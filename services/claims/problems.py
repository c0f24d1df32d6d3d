"""Errors of the claims service, split by what the caller can do.

Problem
├── BadEvidence       422  manifest or logs do not fit each other
├── NoSuchEvidence    404
└── EvidenceExists    409  the id is taken by other evidence, which is never overwritten
"""

from __future__ import annotations

from services.kit.problems import Conflict, MalformedPayload, NotFound


class BadEvidence(MalformedPayload):
    slug, title = "bad-evidence", "The evidence is not complete"


class NoSuchEvidence(NotFound):
    slug, title = "no-such-evidence", "There is no such evidence"


class EvidenceExists(Conflict):
    slug, title = "evidence-exists", "The id is taken, and evidence is written once"
