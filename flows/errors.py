"""Errors of the flows.

FlowError
├── PlatformError   a service answered with a problem or not at all: the step may be repeated later
├── BudgetError     the time budget does not suffice for the step: give more minutes
├── StorageError    the disk is full: free space and run again
├── TrainingError   the loss is not finite, or a checkpoint is of another run: look at the data or remove the file
├── StepError       a tool that a step uses failed: read what it says
├── BusyError       another process does this very run: wait for it
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


class StorageError(FlowError):
    """There is no room for a file; the one before it is kept."""


class TrainingError(FlowError):
    """Training cannot go on: the loss is not finite, or the checkpoint is not of this run."""


class StepError(FlowError):
    """A tool that a step uses failed: compiler, device process, codec."""


class BusyError(FlowError):
    """Another process is doing the same run."""


class RefusedError(FlowError):
    """The platform judged the candidate and refused it."""


class NothingToDo(FlowError):
    """There is nothing that a run could improve."""
