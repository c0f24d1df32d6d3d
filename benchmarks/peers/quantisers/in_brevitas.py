"""Inside Brevitas' environment: int8 weights per channel, learned activation scales, int32 bias, QCDQ export."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from brevitas import nn as qnn  # type: ignore[import-not-found]  # the peer's own environment
from brevitas.export import export_onnx_qcdq  # type: ignore[import-not-found]  # the peer's own environment
from brevitas.graph.calibrate import calibration_mode  # type: ignore[import-not-found]  # the peer's own environment
from brevitas.quant import (  # type: ignore[import-not-found]  # the peer's own environment
    Int8ActPerTensorFloat,
    Int8WeightPerChannelFloat,
    Int32Bias,
    Uint8ActPerTensorFloat,
)
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.peers.quantisers.task import MODEL, Work
from benchmarks.teaching.plain import PlainNet
from flows.tasks.vsr.architecture import SCALE
from flows.tasks.vsr.net import anchor


class BrevitasNet(nn.Module):
    """The plain net of Brevitas' layers, its input, residual and picture quantised as well."""

    def __init__(self, net: PlainNet) -> None:
        super().__init__()
        made = []
        for conv in net.convs:
            assert isinstance(conv, nn.Conv2d)
            layer = qnn.QuantConv2d(
                conv.in_channels, conv.out_channels, 3, padding=1, weight_quant=Int8WeightPerChannelFloat,
                bias_quant=Int32Bias,
            )  # fmt: skip
            layer.load_state_dict(conv.state_dict(), strict=False)
            made.append(layer)
        self.convs = nn.ModuleList(made)
        self.relus = nn.ModuleList(
            qnn.QuantReLU(act_quant=Uint8ActPerTensorFloat, return_quant_tensor=True) for _ in made[:-1]
        )
        self.pixels = qnn.QuantIdentity(act_quant=Uint8ActPerTensorFloat, return_quant_tensor=True)
        self.residual = qnn.QuantIdentity(act_quant=Int8ActPerTensorFloat)
        self.picture = qnn.QuantIdentity(act_quant=Uint8ActPerTensorFloat)

    def forward(self, x: Tensor) -> Tensor:
        """Float RGB -> its quantised enlargement."""
        pixels: Any = self.pixels(x)  # Any: a QuantTensor, and a plain one while exporting
        y = pixels
        for conv, relu in zip(self.convs[:-1], self.relus, strict=True):
            y = relu(conv(y))
        residual = self.residual(self.convs[-1](y))
        plain = getattr(pixels, "value", pixels)
        return torch.as_tensor(self.picture(F.pixel_shuffle(residual, SCALE) + anchor(plain)))


def main(folder: Path) -> None:
    """Calibrate, train, export."""
    work = Work.of(folder)
    model = BrevitasNet(work.net())
    with torch.no_grad(), calibration_mode(model):
        for batch in work.calibration():
            model(batch)
    work.train(model, model, slow="scaling_impl")
    model.eval()
    frames = work.frames()
    with torch.no_grad():
        outputs = [model(x) for x in frames]
    export_onnx_qcdq(
        model, args=frames[0], export_path=str(folder / MODEL), opset_version=17, input_names=["x"], output_names=["y"],
        dynamo=False,
    )  # fmt: skip
    work.leave("brevitas", outputs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
