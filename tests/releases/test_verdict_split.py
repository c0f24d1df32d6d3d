"""The sample-ratio check inside the verdict: a broken split holds a promotion, a planned one changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from services.releases.verdict import Decision, Evidence, VerdictPolicy, judge
from services.releases.verdict.sample_ratio import sample_ratio
from tests.releases.fleets import CLASSES, fleet, look

POLICY = VerdictPolicy()


def quarter(targeted: int, share: float | None) -> Evidence:
    """A healthy 25 % stage of 2,000 devices whose split is claimed to expose `targeted` of them."""
    generator = np.random.default_rng(1)
    seen = look(fleet(2_000, generator), 0.25, 1.0, generator)
    half = targeted // 2
    return replace(seen, targeted={CLASSES[0]: half, CLASSES[1]: targeted - half}, exposed_share=share)


def test_a_split_as_planned_promotes() -> None:
    assert judge(quarter(505, 0.25), POLICY, 1.0, 5).decision is Decision.PROMOTE


def test_a_broken_split_holds_the_promotion_and_says_why() -> None:
    judgement = judge(quarter(300, 0.25), POLICY, 1.0, 5)
    assert judgement.decision is Decision.CONTINUE
    assert judgement.reasons == ("sample ratio: 300 of 2000 devices are canaries, 25 % were planned",)


def test_without_a_planned_share_the_split_is_not_judged() -> None:
    assert judge(quarter(300, None), POLICY, 1.0, 5).decision is Decision.PROMOTE


def test_a_stage_that_exposes_everyone_is_a_split_as_planned() -> None:
    assert judge(quarter(2_000, 1.0), POLICY, 1.0, 5).decision is Decision.PROMOTE


def test_harm_is_still_harm_when_the_split_is_broken() -> None:
    broken = quarter(300, 0.25)
    pooled = replace(broken.pooled, failed=broken.pooled.started)
    assert judge(replace(broken, pooled=pooled), POLICY, 1.0, 5).decision is Decision.ROLLBACK


def test_a_first_stage_widened_until_each_class_has_four_canaries_is_no_broken_split() -> None:
    generator, runs, alarms = np.random.default_rng(5), 2_000, 0
    for _ in range(runs):
        buckets = generator.random((2, 60))
        share = float(np.sort(buckets, axis=1)[:, 3].max())
        canaries = int((buckets <= share).sum())
        alarms += sample_ratio(canaries, 120 - canaries, share).mismatch()
    assert alarms / runs <= 0.001 + 3 * (0.001 * 0.999 / runs) ** 0.5
