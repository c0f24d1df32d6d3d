"""Every size, count and time limit of the agent, in one place.

Numbers that a deployment may change live in `config.py`; these protect the device from the outside world
and from itself.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AgentLimits:
    """Upper bounds. Bytes, counts and real seconds."""

    bundle_bytes: int = 64 * 1024 * 1024
    metadata_bytes: int = 512 * 1024
    metadata_roots: int = 32
    answer_bytes: int = 256 * 1024
    connect_s: float = 5.0
    read_s: float = 15.0
    metadata_s: float = 30.0
    keys_fresh_s: float = 86_400.0
    """The list of state keys is read anew this often."""
    keys_stale_s: float = 7 * 86_400.0
    """A list that is older than this lets no new state document in."""
    keys_retry_s: float = 60.0
    bundle_s: float = 900.0
    download_attempts: int = 4
    download_factor: int = 3
    """A download may cost so many times its bytes, tries included."""
    delta_share: float = 0.8
    """A delta is used when it is smaller than this share of the bundle."""
    wanted_s: float = 10.0
    """During a download the platform is asked this often whether the bundle is still wanted."""
    request_attempts: int = 3
    backoff_s: float = 0.4
    backoff_most_s: float = 30.0
    retry_after_most_s: float = 600.0
    outbox_entries: int = 512
    outbox_bytes: int = 8 * 1024 * 1024
    outbox_entry_bytes: int = 64 * 1024
    held_reports: int = 4
    held_bytes: int = 64 * 1024
    rollbacks_kept: int = 16
    falls_kept: int = 16
    trial_boots: int = 3
    trial_arms: int = 8
    notes_waiting: int = 256
    guard_frames: int = 100
    """The weights in memory are authenticated once in so many frames."""
    video_side: int = 4096
    video_header_s: float = 10.0
    quantiser_blocks: int = 96
    """Blocks of a picture that are asked for their quantiser."""
    samples_kept: int = 512
    identity_bytes: int = 64 * 1024
    tee_s: float = 20.0
    """How long the trusted environment may take for one answer."""
    tee_rest_most_s: float = 600.0


LIMITS = AgentLimits()
