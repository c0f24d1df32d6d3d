"""Inside torchao's environment: PT2E quantisation-aware training with its XNNPACK quantiser, ONNX by torch.export."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.export import Dim, export
from torchao.quantization.pt2e import (  # type: ignore[import-not-found]  # the peer's own environment
    allow_exported_model_train_eval,
    disable_observer,
)
from torchao.quantization.pt2e.quantize_pt2e import (  # type: ignore[import-not-found]  # the peer's own environment
    convert_pt2e,
    prepare_qat_pt2e,
)
from torchao.testing.pt2e._xnnpack_quantizer import (  # type: ignore[import-not-found]  # the peer's own environment
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)

from benchmarks.peers.quantisers.task import MODEL, Work


def main(folder: Path) -> None:
    """Capture, prepare, train, convert, export."""
    work = Work.of(folder)
    batches = work.calibration()
    sizes = {"x": {0: Dim("n"), 2: Dim("h"), 3: Dim("w")}}
    captured = export(work.net(), (batches[0],), dynamic_shapes=sizes).module()
    quantiser = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True, is_qat=True))
    model = allow_exported_model_train_eval(prepare_qat_pt2e(captured, quantiser))
    with torch.no_grad():
        for batch in batches:
            model(batch)
    work.train(model, model)
    model.apply(disable_observer)
    model.eval()
    frames = work.frames()
    with torch.no_grad():
        outputs = [model(x) for x in frames]
    converted = convert_pt2e(model)
    torch.onnx.export(
        converted, (frames[0],), str(folder / MODEL), dynamo=True, opset_version=21, input_names=["x"],
        output_names=["y"], external_data=False,
    )  # fmt: skip
    work.leave("torchao", outputs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
