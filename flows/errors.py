"""Errors of the flows.

FlowError
├── PlatformError   a service answered with a problem or not at all: the step may be repeated later
├── BudgetError     the time budget does not suffice for the step: give more minutes
├── NothingToDo     every hard cluster is covered: no run is needed
└── RefusedError    the platform judged and said no (gate blocked, build refused): read the evidence
"""

from __future__ import annotations


class FlowError(Exception):
    """Base of every error that a flow raises on purpose; the message names what, where and the remedy."""


class PlatformError(FlowError):
    """The platform could not be asked."""


class BudgetError(FlowError):
    """Too little time to do the step properly."""


class RefusedError(FlowError):
    """The platform judged the candidate and refused it."""


class NothingToDo(FlowError):
    """There is nothing that a run could improve."""
