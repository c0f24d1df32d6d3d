"""What a task is to the flow: data, model family, stages, losses, metrics and exporters behind one interface.

Search (`flows.search`), quantisation (`flows.quant`) and the flow's steps ask a `Task` and nothing else. Another task
is a class with these methods, named in the entry-point group `edgeloop.tasks` (`flows.tasks.registry`); nothing else
changes.

Common to all tasks: frames are uint8 RGB, [n, h, w, 3]; a network takes [n, 3, h, w] in 0..1, gives pictures of
`output_size` and has a trunk and stages of blocks (`Architecture`, `Space`); one number decides, `Metrics.quality`,
larger is better. A mask, say, is a picture whose channels are alike. The gate judges twice the size, by PSNR.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from torch import Tensor, nn

from flows.data.clips import Frames
from flows.data.degrade import Degradation
from flows.data.pairs import PairSet
from flows.tasks.elastic import ElasticNet
from flows.tasks.training import Budget, Progress
from flows.tasks.vsr.architecture import Architecture
from flows.tasks.vsr.metrics import Metrics, Upscaler
from flows.tasks.vsr.train import TrainSettings

__all__ = ["ElasticNet", "Task"]


class Task(Protocol):
    """One learnable task."""

    name: str
    """Of the task and of its model in the registry, like `vsr-x2`."""
    seeds: Path
    """Folder of the models that the first run starts from: v1.onnx, supernet.npz, quality.onnx, observer.npz."""
    first: Architecture
    """Of the first model."""
    quality_name: str
    """What `Metrics.quality` measures, for reports: like `luma PSNR`."""
    quality_unit: str
    """Like `dB`."""

    # data

    def pair(self, high: Frames, condition: Degradation, fps: float) -> tuple[Frames, Frames]:
        """What a receiver gets of a clean clip under a condition, and what the network should make of it."""
        ...

    def output_size(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns of what the network makes of a frame: the same whole multiple of both."""
        ...

    # model family

    def build(self, architecture: Architecture) -> nn.Module:
        """A fresh float network."""
        ...

    def inherit(self, parent: nn.Module, architecture: Architecture) -> nn.Module:
        """A network of `architecture` that computes what the parent computes, as nearly as it can."""
        ...

    def load(self, data: bytes) -> nn.Module:
        """Inverse of `save`."""
        ...

    def save(self, net: nn.Module) -> bytes:
        """Float weights with their architecture; the same weights give the same bytes."""
        ...

    def load_supernet(self, path: Path) -> ElasticNet:
        """Inverse of `save_supernet`."""
        ...

    def save_supernet(self, supernet: ElasticNet, path: Path) -> str:
        """Write the file whole or not at all; returns its SHA-256."""
        ...

    def parameters(self, architecture: Architecture) -> int:
        """Weights and biases."""
        ...

    def macs(self, architecture: Architecture, rows: int, columns: int) -> int:
        """Multiply-accumulates for one input frame."""
        ...

    # stages

    def stages(self, net: nn.Module) -> dict[str, list[nn.Module]]:
        """Modules by stage, in order: `head`, `stage0` .. (none in a stage without blocks), `tail`."""
        ...

    def stage_parameters(self, supernet: ElasticNet, stages: tuple[int, ...]) -> dict[str, nn.Parameter]:
        """What of a supernet learns when these body stages do."""
        ...

    # losses

    def loss(self, output: Tensor, target: Tensor, level: Tensor) -> Tensor:
        """Scalar of a batch; `level` [n] is how hard the recording of each patch is."""
        ...

    def search_loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Scalar of a batch of recordings of unknown level, for slices of a supernet."""
        ...

    def finetune(
        self,
        net: nn.Module,
        normal: PairSet,
        hard: PairSet,
        budget: Budget,
        *,
        settings: TrainSettings,
        progress: Progress | None,
        checkpoint: Path | None,
    ) -> nn.Module:
        """Train in place on a mix of both conditions; goes on from the checkpoint when there is one."""
        ...

    # metrics

    def runner(self, model: nn.Module | bytes) -> Upscaler:
        """A float network or an exported model as a function of frames."""
        ...

    def evaluate(self, model: nn.Module | bytes, pairs: PairSet) -> Metrics:
        """Over all pairs; `Metrics.quality` is what search, pruning and the choice of a start go by."""
        ...

    # exporters

    def quantised(self, net: nn.Module, *, equalise: bool) -> nn.Module:
        """The float network with fake quantisation (`flows.quant.lsq`), not calibrated yet; `net` is left as it is."""
        ...

    def export(self, network: nn.Module) -> bytes:
        """QDQ ONNX, input `x` and output `y`, of a calibrated quantised network."""
        ...
