"""Errors of the compiler, split by what the caller can do. Each names the node, the reason and the remedy.

CompileError
  BrokenModel        bytes or structure are not valid ONNX: export again
  UnsupportedModel   valid ONNX that the NPU cannot run: change the model
  BadQuantization    scales or zero points missing, not finite or out of range: quantise again
  BadProfile         the input size is missing or does not suit the model: give another profile
  DoesNotFit         the program needs more memory than the target has: smaller profile or model
  InternalError      an invariant of the compiler itself broke: report it
"""

from __future__ import annotations


class CompileError(ValueError):
    """One node, one reason, one remedy."""

    def __init__(self, node: str, reason: str, remedy: str) -> None:
        super().__init__(f"{node}: {reason}; {remedy}")
        self.node = node
        self.reason = reason
        self.remedy = remedy


class BrokenModel(CompileError):
    """The bytes are not a well-formed ONNX model."""


class UnsupportedModel(CompileError):
    """The model uses something that the NPU does not have."""


class BadQuantization(CompileError):
    """Quantisation parameters are missing or make no sense."""


class BadProfile(CompileError):
    """An input size is missing or does not suit the model."""


class DoesNotFit(CompileError):
    """A memory of the target is too small."""


class InternalError(CompileError):
    """A pass or the lowering broke an invariant."""
