"""What a cluster is, when it is covered, and how long segments and runs are kept."""

from __future__ import annotations

from contracts.wire.settings import HeldSettings, SettingSection
from services.curation.limits import LIMITS, curation_settings
from services.kit.held import of_environment, of_release

KEPT = {
    "segment_days": ("days", "segments are kept for clustering"),
    "runs_kept": ("runs", "clusterings that are kept, the newest ones"),
    "members_kept": ("rows", "members of clusters that are kept over all runs"),
}
UNITS = {
    "window_days": "days",
    "run_every_hours": "hours",
    "min_samples": "segments",
    "eps": "distance of segment vectors",
    "eps_floor": "distance of segment vectors",
    "eps_ceiling": "distance of segment vectors",
    "eps_cov_default": "distance of segment vectors",
    "leak_eps": "distance of segment vectors",
    "radius_cap": "multiples of eps",
    "keep_hardest": "segments",
    "most_dropped": "share",
    "rebuild_days": "days",
    "plan_hours": "hours",
    "covered_share": "share",
    "uncovered_share": "share",
}


def held() -> HeldSettings:
    """Clustering, coverage, retention."""
    return HeldSettings(
        sections=(
            SettingSection(
                name="hard examples: clusters and coverage", items=of_environment(curation_settings(), UNITS, UNITS)
            ),
            SettingSection(name="hard examples: retention", items=of_release(LIMITS, KEPT)),
        )
    )
