"""What a run is held against, as figures."""

from __future__ import annotations

from deploy.prove.killing import MOMENTS
from deploy.prove.loop import Outcome
from edgeloop.figures import Figure, exactly


def image_figures(sizes: dict[str, int], users: dict[str, str]) -> list[Figure]:
    """Size of each image and the user that it is made for."""
    rows = [Figure(f"compose.image.{name}", round(size / 1e6), "MB", "printed", True) for name, size in sizes.items()]
    rooted = sum(user in ("", "0", "root", "0:0") for user in users.values())
    return [*rows, exactly("compose.images_for_root", rooted, "images", 0)]


def loop_figures(outcome: Outcome, killed: bool) -> list[Figure]:
    """The loop's end, users, kills and what was acknowledged; then the demo's own figures."""
    own = [
        Figure("compose.up_s", round(outcome.seconds_up, 1), "s", "printed", True),
        Figure("compose.loop_s", round(outcome.seconds_loop, 1), "s", "printed", True),
        exactly("compose.loop_finished", outcome.exit_code == 0, "", wanted=True),
        exactly("compose.containers_as_root", sum(uid == 0 for uid in outcome.users.values()), "containers", 0),
        Figure("compose.containers", len(outcome.users), "containers", "printed", True),
        Figure("compose.acknowledged", outcome.acknowledged, "reports", "printed", True),
        Figure("compose.unanswered", outcome.unanswered, "calls while something was down", "printed", True),
        exactly("compose.lost", outcome.lost, "acknowledged, not in PostgreSQL", 0),
        exactly("compose.not_passed_on", outcome.not_passed_on, "kept, not taken over by drift", 0),
    ]
    own += [Figure(f"compose.rows.{name}", count, "rows", "printed", True) for name, count in outcome.rows.items()]
    if killed:
        by_policy = sum(kill.started_by == "its restart policy" for kill in outcome.kills)
        own += [
            exactly("compose.killed", len(outcome.kills), "services", len(MOMENTS)),
            exactly("compose.restarted_by_policy", by_policy, "services", len(MOMENTS)),
        ]
    return own + [Figure(f"demo.{row['id']}", row["value"], row["unit"], row["reach"], row["ok"])
                  for row in outcome.report.get("figures", [])]  # fmt: skip
