"""Inside AIMET's environment: QuantizationSimModel, training of its ranges, ONNX with int32 bias.

AIMET imports plotting and vision packages at the start; empty modules stand in for those that are not installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import benchmarks.peers.quantisers.aimet_absent  # noqa: F401  # isort: skip  # before AIMET
import torch
from aimet_torch import onnx as aimet_onnx  # type: ignore[import-not-found]  # the peer's own environment
from aimet_torch.nn.modules.custom import Add  # type: ignore[import-not-found]  # the peer's own environment
from aimet_torch.quantsim import QuantizationSimModel  # type: ignore[import-not-found]  # the peer's own environment
from torch import Tensor, nn

from benchmarks.peers.quantisers.task import MODEL, Work
from benchmarks.teaching.plain import PlainNet
from flows.tasks.vsr.architecture import SCALE


class Modules(nn.Module):
    """The plain net with a module for every operation, which AIMET asks for."""

    def __init__(self, net: PlainNet) -> None:
        super().__init__()
        self.convs = net.convs
        self.relus = nn.ModuleList(nn.ReLU() for _ in net.convs[:-1])
        self.shuffle = nn.PixelShuffle(SCALE)
        self.repeat = nn.Upsample(scale_factor=float(SCALE), mode="nearest")
        self.add = Add()

    def forward(self, x: Tensor) -> Tensor:
        """Float RGB -> its enlargement."""
        y = x
        for conv, relu in zip(self.convs[:-1], self.relus, strict=True):
            y = relu(conv(y))
        picture: Tensor = self.add(self.shuffle(self.convs[-1](y)), self.repeat(x))
        return picture


def main(folder: Path) -> None:
    """Calibrate, train, export."""
    work = Work.of(folder)
    batches, frames = work.calibration(), work.frames()
    sim = QuantizationSimModel(Modules(work.net()).eval(), dummy_input=batches[0])

    def calibrate(model: nn.Module) -> None:
        for batch in batches:
            model(batch)

    with torch.no_grad():
        sim.compute_encodings(calibrate)
    work.train(sim.model, sim.model)
    sim.model.eval()
    with torch.no_grad():
        outputs = [sim.model(x) for x in frames]
    aimet_onnx.export(
        sim, (frames[0],), str(folder / MODEL), input_names=["x"], output_names=["y"], opset_version=21, dynamo=True,
        prequantize_constants=True,
    )  # fmt: skip
    work.leave("aimet-torch", outputs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
