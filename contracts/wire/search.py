"""The search behind a model: what was judged, what it cost, what was chosen, as a flow hands it over with its build."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from contracts.wire.base import Answer, Message

MOST_CANDIDATES = 300
"""Networks that one record names; a flow that judged more leaves out the ones that are beaten most."""

NetworkName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 .:,x+_-]{0,79}$")]
Count = Annotated[int, Field(ge=0, le=10**12)]


class SearchCandidate(Message):
    """One judged network. Quality in dB on the pairs set aside for validation, more is better; latency as a multiple of
    production's on the device class and frame size where it is worst; size in weights.
    """

    name: NetworkName
    quality_db: Annotated[float, Field(ge=-100.0, le=200.0)]
    latency_ratio: Annotated[float, Field(gt=0.0, le=1e6)]
    weights: Count
    front: bool = False
    """No other judged network is better and as fast, or faster and as good."""
    chosen: bool = False
    production: bool = False
    """The network that ran when the search began: latency 1."""


class SearchRecord(Message):
    """The networks of one search. `latency_limit` is the largest ratio that the search allowed; `judged` counts every
    network that was judged, `space` all that there were.
    """

    latency_limit: Annotated[float, Field(gt=0.0, le=1e6)]
    judged: Annotated[int, Field(ge=1, le=10**9)]
    space: Count
    candidates: Annotated[tuple[SearchCandidate, ...], Field(min_length=1, max_length=MOST_CANDIDATES)]

    @model_validator(mode="after")
    def _one_choice(self) -> SearchRecord:
        """Exactly one network was chosen, one at most was production, names are not repeated."""
        names = [one.name for one in self.candidates]
        if len(set(names)) != len(names):
            raise ValueError("a network is named twice")
        if sum(one.chosen for one in self.candidates) != 1:
            raise ValueError("exactly one candidate must be the chosen one")
        if sum(one.production for one in self.candidates) > 1:
            raise ValueError("one candidate at most is production")
        if self.judged < len(self.candidates):
            raise ValueError("more candidates than were judged")
        return self


class BuildSearch(Answer):
    """What the builds service keeps of the search behind a build; null where nobody told it."""

    build_id: str
    search: SearchRecord | None = None
