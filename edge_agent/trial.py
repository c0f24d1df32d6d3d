"""The trial of a new bundle: watched frame by frame, ended by the first harm or by enough good frames."""

from __future__ import annotations

from edge_agent.observers.health import HealthWindow, Played, TrialLimits, Verdict, judge


class TrialWatch:
    """Counts while a bundle is on trial; idle otherwise."""

    def __init__(self, limits: TrialLimits, budget_ms: float) -> None:
        self._limits = limits
        self._window = HealthWindow(budget_ms)
        self._since: float | None = None

    @property
    def running(self) -> bool:
        return self._since is not None

    def begin(self, now: float) -> None:
        """Start a trial at simulated instant `now`."""
        self._window.reset()
        self._since = now

    def end(self) -> None:
        self._since = None

    def add(self, played: Played, now: float) -> Verdict:
        """Take a frame of the bundle on trial and judge."""
        assert self._since is not None
        self._window.add(played)
        return judge(self._window, now - self._since, self._limits)
