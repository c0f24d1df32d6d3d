"""The first task, x2 video super-resolution, behind the interface of all tasks."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from flows.data.clips import Frames
from flows.data.degrade import Degradation, degrade
from flows.data.pairs import PairSet
from flows.quant.equalise import equalised
from flows.quant.export import export_vsr
from flows.quant.networks import QuantVsrNet
from flows.tasks.task import ElasticNet
from flows.tasks.training import Budget, Progress
from flows.tasks.vsr.architecture import HAND_MADE, SCALE, Architecture
from flows.tasks.vsr.inherit import inherit
from flows.tasks.vsr.metrics import Metrics, Upscaler, as_upscaler, evaluate
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.supernet import Supernet, load_supernet, save_supernet
from flows.tasks.vsr.train import TrainSettings, finetune, psnr_loss, relative_loss
from flows.tasks.vsr.weights import load_net, save_net


class VsrTask:
    """See `flows.tasks.task.Task`."""

    name = "vsr-x2"
    seeds = Path(__file__).resolve().parents[3] / "seeds"
    first = HAND_MADE
    quality_name, quality_unit = "luma PSNR", "dB"

    def pair(self, high: Frames, condition: Degradation, fps: float) -> tuple[Frames, Frames]:
        """The degraded half-size clip and the clean one."""
        return degrade(high, condition, fps)

    def output_size(self, rows: int, columns: int) -> tuple[int, int]:
        """Twice the size."""
        return SCALE * rows, SCALE * columns

    def build(self, architecture: Architecture) -> VsrNet:
        """Kaiming weights."""
        return VsrNet(architecture)

    def inherit(self, parent: nn.Module, architecture: Architecture) -> VsrNet:
        """Net2Net."""
        return inherit(_net(parent), architecture)

    def load(self, data: bytes) -> VsrNet:
        """float16 npz."""
        return load_net(data)

    def save(self, net: nn.Module) -> bytes:
        """float16 npz."""
        return save_net(_net(net))

    def load_supernet(self, path: Path) -> Supernet:
        """float16 npz."""
        return load_supernet(path)

    def save_supernet(self, supernet: ElasticNet, path: Path) -> str:
        """float16 npz."""
        if not isinstance(supernet, Supernet):
            raise TypeError(f"{type(supernet).__name__} is no supernet of {self.name}")
        return save_supernet(supernet, path)

    def parameters(self, architecture: Architecture) -> int:
        """Of head, blocks and tail."""
        return architecture.parameters()

    def macs(self, architecture: Architecture, rows: int, columns: int) -> int:
        """Of head, blocks and tail, at half the input's extents."""
        return architecture.macs(rows, columns)

    def stages(self, net: nn.Module) -> dict[str, list[nn.Module]]:
        """Head, residual blocks of each stage, tail."""
        own, position = _net(net), 0
        groups: dict[str, list[nn.Module]] = {"head": [own.head]}
        for index, stage in enumerate(own.architecture.stages):
            groups[f"stage{index}"] = list(own.blocks[position : position + stage.depth])
            position += stage.depth
        return {**groups, "tail": [own.tail]}

    def stage_parameters(self, supernet: ElasticNet, stages: tuple[int, ...]) -> dict[str, nn.Parameter]:
        """The blocks of these stages."""
        per_stage = max(supernet.space.depths)
        blocks = {index * per_stage + position for index in stages for position in range(per_stage)}
        names = tuple(f"full.blocks.{block}." for block in sorted(blocks))
        return {name: value for name, value in supernet.named_parameters() if name.startswith(names)}

    def loss(self, output: Tensor, target: Tensor, level: Tensor) -> Tensor:
        """PSNR, recording by recording."""
        return relative_loss(output, target, level)

    def search_loss(self, output: Tensor, target: Tensor) -> Tensor:
        """PSNR of the batch."""
        return psnr_loss(output, target)

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
        """See `flows.tasks.vsr.train.finetune`."""
        return finetune(net, normal, hard, budget, settings=settings, progress=progress, checkpoint=checkpoint)

    def runner(self, model: nn.Module | bytes) -> Upscaler:
        """Frames to frames of twice the size."""
        return as_upscaler(model)

    def evaluate(self, model: nn.Module | bytes, pairs: PairSet) -> Metrics:
        """PSNR and flicker."""
        return evaluate(model, pairs)

    def quantised(self, net: nn.Module, *, equalise: bool) -> QuantVsrNet:
        """Grids pinned to pixels at input, residual and output."""
        return QuantVsrNet(equalised(_net(net)) if equalise else _net(net))

    def export(self, network: nn.Module) -> bytes:
        """The numbers trained with, as QDQ ONNX."""
        if not isinstance(network, QuantVsrNet):
            raise TypeError(f"{type(network).__name__} is no quantised network of {self.name}")
        return export_vsr(network)


def _net(net: nn.Module) -> VsrNet:
    if not isinstance(net, VsrNet):
        raise TypeError(f"{type(net).__name__} is no network of vsr-x2")
    return net


VSR = VsrTask()
