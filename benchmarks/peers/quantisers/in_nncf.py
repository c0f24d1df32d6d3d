"""Inside NNCF's environment: `nncf.quantize`, training of its ranges, native strip, ONNX.

NNCF compiles its own operators with ninja when it is first used.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("NNCF_EXTENSION_LOAD_TIMEOUT", "0")

import nncf  # type: ignore[import-not-found]  # the peer's own environment, after its setting
import torch

from benchmarks.peers.quantisers.task import MODEL, Work


def main(folder: Path) -> None:
    """Quantise, train, strip, export."""
    work = Work.of(folder)
    batches = work.calibration()
    model = nncf.quantize(work.net().eval(), nncf.Dataset(batches), subset_size=len(batches))
    work.train(model, model)
    model.eval()
    frames = work.frames()
    with torch.no_grad():
        outputs = [model(x) for x in frames]
    native = nncf.strip(model, strip_format=nncf.StripFormat.NATIVE, example_input=frames[0])
    torch.onnx.export(  # torch.export stumbles over NNCF's hooks, the older exporter does not
        native, (frames[0],), str(folder / MODEL), dynamo=False, opset_version=17, input_names=["x"],
        output_names=["y"],
    )  # fmt: skip
    work.leave("nncf", outputs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
