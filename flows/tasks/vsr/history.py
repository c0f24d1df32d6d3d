"""Nets that keep features from frame to frame: clips through a net one frame at a time, and a player that remembers.

What is kept joins the next frame behind the head: `join` makes trunk channels of it, which are added; `keep` makes it
of the last block's output. A net without history never sees any of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

FRAMES = 3
"""Consecutive frames that a net with history is trained on."""

Step = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor | None]]
"""A frame and what the one before kept (None before the first), to the enlarged frame and what the next may read."""


@contextmanager
def clips_of(net: nn.Module, frames: int) -> Iterator[None]:
    """While this lasts, a net with history takes its batches as clips of so many consecutive frames."""
    before: int | None = getattr(net, "frames", None)
    if before is not None:
        net.frames = frames  # type: ignore[assignment]  # torch types attributes of modules as modules
    try:
        yield
    finally:
        if before is not None:
            net.frames = before  # type: ignore[assignment]  # as above


def unrolled(step: Step, x: Tensor, frames: int) -> Tensor:
    """Clips [clips * frames, 3, h, w] through `step`, frame after frame; same order out."""
    clips, kept, images = x.reshape(-1, frames, *x.shape[1:]), None, []
    for place in range(frames):
        image, kept = step(clips[:, place], kept)
        images.append(image)
    return torch.stack(images, dim=1).flatten(0, 1)


class Player:
    """Plays one stream through a module; a module without `step` sees every frame alone."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._kept: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """The next frame, [1, 3, h, w] -> [1, 3, 2h, 2w]."""
        step: Step | None = getattr(self._model, "step", None)
        if step is None:
            alone: Tensor = self._model(x)
            return alone
        image, self._kept = step(x, self._kept)
        return image
