"""A second task: where in the picture is it bright? A mask of twice the size, learned by a net of another family.

No Space-to-Depth, no anchor to add to: convolution, residual blocks, convolution, PixelShuffle. The mask is a picture
whose three channels are alike.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flows.data.clips import Frames
from flows.data.degrade import Degradation, degrade
from flows.data.pairs import PairSet
from flows.quant.export import conv_codes, conv_relu, encoding, residual_block
from flows.quant.lsq import PIXEL_SCALE, ActivationQuantizer, QuantConv2d
from flows.quant.networks import QuantBlock, through
from flows.quant.qdq import QdqWriter
from flows.tasks.elastic import ElasticNet
from flows.tasks.training import Budget, Loop, Progress, one_thread, parameters_of
from flows.tasks.vsr.architecture import Architecture, Space, Stage
from flows.tasks.vsr.metrics import Metrics, Upscaler, as_upscaler, evaluate
from flows.tasks.vsr.net import ResidualBlock
from flows.tasks.vsr.train import TrainSettings, mixed_batch

SPACE = Space(trunks=(8,), depths=(0, 1), mids=(4, 8), kernels=(3,), stages=2)
FIRST = Architecture(8, (Stage(1, 4), Stage(1, 4)))
LEVEL = 110


class MaskNet(nn.Module):
    """[n, 3, h, w] -> [n, 3, scale h, scale w] in about 0..1."""

    def __init__(self, architecture: Architecture, scale: int = 2) -> None:
        super().__init__()
        self.architecture, self.scale = architecture, scale
        self.head = nn.Conv2d(3, architecture.trunk, 3, padding=1)
        self.blocks = nn.ModuleList(
            ResidualBlock(architecture.trunk, block.mid, block.kernel) for block in architecture.blocks
        )
        self.tail = nn.Conv2d(architecture.trunk, 3 * scale**2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.head(x))
        for block in self.blocks:
            y = block(y)
        return F.pixel_shuffle(self.tail(y), self.scale)


class MaskSupernet(ElasticNet):
    """Slices by leading channels and leading blocks."""

    def __init__(self, space: Space, scale: int = 2) -> None:
        super().__init__()
        self.space = space
        self.full = MaskNet(space.largest, scale)

    def forward(self, x: Tensor, architecture: Architecture | None = None) -> Tensor:
        y = F.relu(self.full.head(x))
        for block, mid in self._kept(architecture or self.space.largest):
            middle = F.relu(F.conv2d(y, block.expand.weight[:mid], _bias(block.expand)[:mid], padding=1))
            y = y + F.conv2d(middle, block.project.weight[:, :mid], _bias(block.project), padding=1)
        return F.pixel_shuffle(self.full.tail(y), self.full.scale)

    def extract(self, architecture: Architecture) -> MaskNet:
        net = MaskNet(architecture, self.full.scale)
        with torch.no_grad():
            for name in ("head", "tail"):
                getattr(net, name).load_state_dict(getattr(self.full, name).state_dict())
            for (source, mid), target in zip(self._kept(architecture), net.blocks, strict=True):
                assert isinstance(target, ResidualBlock)
                target.expand.weight.copy_(source.expand.weight[:mid])
                _bias(target.expand).copy_(_bias(source.expand)[:mid])
                target.project.weight.copy_(source.project.weight[:, :mid])
                _bias(target.project).copy_(_bias(source.project))
        return net

    def _kept(self, architecture: Architecture) -> list[tuple[ResidualBlock, int]]:
        kept = []
        for index, stage in enumerate(architecture.stages):
            for place in range(stage.depth):
                block = self.full.blocks[index * max(self.space.depths) + place]
                assert isinstance(block, ResidualBlock)
                kept.append((block, stage.mid))
        return kept


class QuantMaskNet(nn.Module):
    """Quantised `MaskNet`; input and output on the pixel grid."""

    def __init__(self, net: MaskNet) -> None:
        super().__init__()
        self.head, self.tail, self.scale = QuantConv2d(net.head), QuantConv2d(net.tail), net.scale
        blocks = [block for block in net.blocks if isinstance(block, ResidualBlock)]
        self.blocks = nn.ModuleList(QuantBlock(block) for block in blocks)
        self.input_grid = ActivationQuantizer(PIXEL_SCALE, 0, pinned=True)
        self.head_grid = ActivationQuantizer()
        self.tail_grid = ActivationQuantizer(PIXEL_SCALE, 0, pinned=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.input_grid(x)
        y, grid = through(self.head, x, self.input_grid.scale, self.head_grid, relu=True), self.head_grid
        for block in self.blocks:
            assert isinstance(block, QuantBlock)
            y, grid = block(y, grid), block.sum_grid
        return F.pixel_shuffle(through(self.tail, y, grid.scale, self.tail_grid), self.scale)


class MaskTask:
    """See `flows.tasks.task.Task`."""

    name = "bright-mask"
    seeds = Path("seeds-of-the-second-task")
    first = FIRST
    quality_name, quality_unit = "PSNR of the mask", "dB"
    scale = 2

    def pair(self, high: Frames, condition: Degradation, fps: float) -> tuple[Frames, Frames]:
        low, clean = degrade(high, condition, fps)
        bright = clean.mean(axis=3, keepdims=True) > LEVEL * condition.gain
        return low, np.repeat(bright.astype(np.uint8) * 255, 3, axis=3)

    def output_size(self, rows: int, columns: int) -> tuple[int, int]:
        return self.scale * rows, self.scale * columns

    def build(self, architecture: Architecture) -> MaskNet:
        return MaskNet(architecture, self.scale)

    def inherit(self, parent: nn.Module, architecture: Architecture) -> MaskNet:
        assert isinstance(parent, MaskNet)
        net = MaskNet(architecture, self.scale)
        for name in ("head", "tail"):
            getattr(net, name).load_state_dict(getattr(parent, name).state_dict())
        return net

    def load(self, data: bytes) -> MaskNet:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            net = MaskNet(Architecture.from_json(bytes(archive["architecture"]).decode()), self.scale)
            names = [name for name in archive.files if name != "architecture"]
            net.load_state_dict({name: torch.from_numpy(archive[name]) for name in names})
        return net

    def save(self, net: nn.Module) -> bytes:
        assert isinstance(net, MaskNet)
        buffer = io.BytesIO()
        text = np.frombuffer(net.architecture.to_json().encode(), np.uint8)
        np.savez(buffer, architecture=text, **{name: value.numpy() for name, value in net.state_dict().items()})
        return buffer.getvalue()

    def load_supernet(self, path: Path) -> MaskSupernet:
        supernet = MaskSupernet(SPACE, self.scale)
        supernet.load_state_dict(torch.load(path, weights_only=True))
        return supernet

    def save_supernet(self, supernet: ElasticNet, path: Path) -> str:
        torch.save(supernet.state_dict(), path)
        return ""

    def parameters(self, architecture: Architecture) -> int:
        return sum(value.numel() for value in MaskNet(architecture, self.scale).parameters())

    def macs(self, architecture: Architecture, rows: int, columns: int) -> int:
        blocks = sum(18 * architecture.trunk * block.mid for block in architecture.blocks)
        return rows * columns * (9 * architecture.trunk * 15 + blocks)

    def stages(self, net: nn.Module) -> dict[str, list[nn.Module]]:
        assert isinstance(net, MaskNet)
        found: dict[str, list[nn.Module]] = {"head": [net.head]}
        blocks = iter(net.blocks)
        for index, stage in enumerate(net.architecture.stages):
            found[f"stage{index}"] = [next(blocks) for _ in range(stage.depth)]
        return {**found, "tail": [net.tail]}

    def stage_parameters(self, supernet: ElasticNet, stages: tuple[int, ...]) -> dict[str, nn.Parameter]:
        starts = tuple(f"full.blocks.{stage}." for stage in stages)
        return {name: value for name, value in supernet.named_parameters() if name.startswith(starts)}

    def loss(self, output: Tensor, target: Tensor, level: Tensor) -> Tensor:
        return F.mse_loss(output.float(), target)

    def search_loss(self, output: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(output.float(), target)

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
        random = np.random.default_rng(settings.seed)
        loop = Loop(
            parameters_of(net), budget, rate=settings.rate, decay=0.9, progress=progress, checkpoint=checkpoint,
            random=random,
        )  # fmt: skip

        def loss_of(_step: int, _share: float) -> Tensor:
            low, high, level = mixed_batch(normal, hard, settings, loop.random)
            return self.loss(net(low), high, level)

        with one_thread():
            loop.run(loss_of)
        loop.use_average()
        return net

    def runner(self, model: nn.Module | bytes) -> Upscaler:
        return as_upscaler(model)

    def evaluate(self, model: nn.Module | bytes, pairs: PairSet) -> Metrics:
        return evaluate(model, pairs)

    def quantised(self, net: nn.Module, *, equalise: bool) -> QuantMaskNet:
        assert isinstance(net, MaskNet)
        return QuantMaskNet(net)

    def export(self, network: nn.Module) -> bytes:
        assert isinstance(network, QuantMaskNet)
        writer = QdqWriter("bright_mask")
        edge = writer.quantize("x", encoding(network.input_grid), "x_dq")
        edge = conv_relu(writer, "head", edge, network.head, network.head_grid)
        for index, block in enumerate(network.blocks):
            assert isinstance(block, QuantBlock)
            edge = residual_block(writer, f"block{index}", edge, block)
        tail = writer.conv("tail", edge, conv_codes(network.tail, edge.encoding))
        shuffled = writer.quantize(tail, encoding(network.tail_grid))
        image = writer.node("DepthToSpace", [shuffled.name], "d2s", blocksize=self.scale, mode="CRD")
        writer.output(
            writer.quantize(image, shuffled.encoding, "y"), [1, 3, f"height{self.scale}", f"width{self.scale}"]
        )
        return writer.finish([1, 3, "height", "width"], {})


def _bias(conv: nn.Conv2d) -> Tensor:
    assert conv.bias is not None
    return conv.bias


class LargeMaskTask(MaskTask):
    """The same mask at four times the size, judged by how much of it is met: another scale and another metric."""

    name = "bright-mask-x4"
    quality_name, quality_unit = "intersection over union", "%"
    scale = 4

    def pair(self, high: Frames, condition: Degradation, fps: float) -> tuple[Frames, Frames]:
        low, mask = super().pair(high, condition, fps)
        return low, mask.repeat(2, axis=1).repeat(2, axis=2)

    def evaluate(self, model: nn.Module | bytes, pairs: PairSet) -> Metrics:
        run = self.runner(model)
        found = [(run(pair.low) > 127, pair.high > 127) for pair in pairs.pairs]
        shares = [(ours & truth).sum() / max(1, (ours | truth).sum()) for ours, truth in found]
        return replace(super().evaluate(model, pairs), other=100.0 * float(np.mean(shares)))


MASK, LARGE_MASK = MaskTask(), LargeMaskTask()
