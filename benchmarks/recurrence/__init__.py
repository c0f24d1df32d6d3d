"""A small recurrent x2 net, trained for a minute, for the question what its history may cost: `bench history`.

`net.py` is the net and its three kinds of history, `clips.py` the frames, `training.py` the training, `exporting.py`
the integers, `playing.py` the emulated device and the PSNR.
"""

from __future__ import annotations
