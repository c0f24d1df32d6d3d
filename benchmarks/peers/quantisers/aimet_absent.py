"""Stand-ins for what AIMET imports and is not used here; import this before AIMET."""

from __future__ import annotations

from benchmarks.peers.quantisers.absent import stand_in

stand_in(("torchvision", "bokeh", "cvxpy", "holoviews", "hvplot", "tensorboard", "osqp", "pybind11"))
