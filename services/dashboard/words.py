"""Words of the API that the page shows as they come: states, verdicts, metrics. The catalogues translate them too."""

from __future__ import annotations

from collections.abc import Iterator

WORDS = {
    "good": "passed completed confirmed covered stable benign retrain ok promote safe",
    "busy": "queued compiling gating running pending trial continue partial scheduled",
    "alert": "blocked refused failed paused rolled_back killed severe warn uncovered fail rollback harm inconclusive"
    " no_examples crashed cancelled cancelling error warning",
    "idle": "draft reference insufficient_data cool_down budget superseded withdrawn",
}
OTHERS = "password provider token info debug unknown"


def said() -> Iterator[str]:
    """Each of them as people read it."""
    for words in (*WORDS.values(), OTHERS):
        yield from (word.replace("_", " ") for word in words.split())
