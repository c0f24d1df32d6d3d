"""The oracle computes what a model says, also where the processor's fast kernel would lose bits."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.reference_nets import exact_session as oracle


@pytest.mark.parametrize("loses", [True, None])
def test_sums_that_do_not_fit_sixteen_bits_are_exact(loses: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As this processor is (None), and as one without VNNI."""
    if loses is not None:
        monkeypatch.setattr(oracle, "saturates", lambda: loses)
    model, frame, wanted = oracle.large_pairs()
    (found,) = oracle.exact_session(model).run(None, {"x": frame})
    np.testing.assert_array_equal(found, np.full((1, 1, 4, 4), wanted))
