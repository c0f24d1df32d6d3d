"""Errors of reading a program, split by what the caller can do.

ProgramError
  TruncatedProgram   fewer bytes than the header promises: fetch again
  ForeignProgram     not a program, or of a version that this code does not read
  DamagedProgram     digest, section table or content contradict themselves
"""

from __future__ import annotations


class ProgramError(ValueError):
    """The bytes are not a program that may run. The message says what, where and the remedy."""


class TruncatedProgram(ProgramError):
    """Bytes are missing at the end."""


class ForeignProgram(ProgramError):
    """Another kind of file, or another version of the format."""


class DamagedProgram(ProgramError):
    """The content contradicts its own header."""
