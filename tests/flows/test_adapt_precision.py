"""Adapting a supernet computes in the precision that the processor is fast in, as all training does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from flows.data.degrade import NORMAL
from flows.data.pairs import Pair, PairSet
from flows.search.adapt import adapt_supernet
from flows.tasks.training import Budget
from flows.tasks.vsr.architecture import Space
from flows.tasks.vsr.supernet import Supernet
from flows.tasks.vsr.train import TrainSettings


@pytest.mark.parametrize(("fast", "wanted"), [(False, torch.float32), (True, torch.bfloat16)])
def test_bf16_only_where_the_processor_has_it(fast: bool, wanted: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.tasks.batches._fast_bf16", lambda: fast)
    random = np.random.default_rng(1)
    high = random.integers(0, 256, (2, 64, 64, 3), np.uint8)
    pairs = PairSet((Pair("noise", NORMAL, high[:, ::2, ::2].copy(), high),))
    supernet = Supernet(Space(trunks=(8,), depths=(0, 1), mids=(8,), stages=2))
    seen, forward = set[torch.dtype](), supernet.forward

    def watched(*given: object) -> torch.Tensor:
        made: Callable[..., torch.Tensor] = forward
        output = made(*given)
        seen.add(torch.nn.functional.conv2d(torch.zeros(1, 1, 3, 3), torch.zeros(1, 1, 1, 1)).dtype)
        return output

    monkeypatch.setattr(supernet, "forward", watched)
    adapt_supernet(
        supernet, supernet.space.smallest, (0,), pairs, pairs, Budget(steps=1), TrainSettings(batch=4, patch=16)
    )
    assert seen == {wanted}
