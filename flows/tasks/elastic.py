"""What every supernet is to search and adaptation."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor, nn

from flows.tasks.vsr.architecture import Architecture, Space


class ElasticNet(nn.Module):
    """A supernet: one set of weights of which every architecture of `space` is a slice."""

    space: Space

    @abstractmethod
    def forward(self, x: Tensor, architecture: Architecture | None = None) -> Tensor:
        """Output of one slice, the largest when None."""

    @abstractmethod
    def extract(self, architecture: Architecture) -> nn.Module:
        """A stand-alone copy of one slice. Raises ValueError when it is not in the space."""
