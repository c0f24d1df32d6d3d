"""Words of the API that the page shows as they come: states, verdicts, metrics. The catalogues translate them too."""

from __future__ import annotations

from collections.abc import Iterator

WORDS = {
    "good": "active passed completed confirmed covered stable benign retrain ok promote safe",
    "busy": "queued compiling gating running pending trial continue partial scheduled",
    "alert": "blocked refused failed paused rolled_back killed severe warn uncovered fail rollback harm inconclusive"
    " locked no_examples crashed cancelled cancelling error warning",
    "idle": "draft reference insufficient_data cool_down budget superseded withdrawn disabled",
}
OTHERS = (
    "password provider token info debug unknown viewer operator releaser admin"
    " builds releases curation drift telemetry gate intake_and_retention rollouts:_defaults rollouts:_verdict"
    " rollouts:_agreement_and_sealing releases:_retention_and_validity drift:_retention hard_examples:_threshold"
    " hard_examples:_clusters_and_coverage hard_examples:_retention"
)


def said() -> Iterator[str]:
    """Each of them as people read it."""
    for words in (*WORDS.values(), OTHERS):
        yield from (word.replace("_", " ") for word in words.split())
