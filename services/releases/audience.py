"""Whom a rollout is for: checked when it is asked for, in the words of the state document when it is served."""

from __future__ import annotations

import json

from contracts.device import DeviceTags
from contracts.state import Audience, LayerSlice
from contracts.targeting import RuleError, parse, render
from contracts.wire.releases import RolloutRequest
from services.kit.problems import FieldError
from services.releases.errors import BadSelector
from services.releases.models import LayerRow, RolloutRow


def check(request: RolloutRequest) -> None:
    """Raise BadSelector for a tag that no device has, a tag without values, or a rule that cannot be read."""
    unknown = sorted(set(request.selector) - set(DeviceTags.model_fields))
    if unknown:
        known = ", ".join(DeviceTags.model_fields)
        raise BadSelector(f"selector names unknown tags {', '.join(unknown)}; known tags: {known}")
    empty = sorted(name for name, values in request.selector.items() if not values)
    if empty:
        raise BadSelector(f"selector allows no value of {', '.join(empty)}; leave the tag out to allow all")
    normal_rule(request.rule)
    if bool(request.layer) != bool(request.layer_share):
        raise BadSelector("a layer and a share of it belong together: give both, or neither")


def normal_rule(text: str) -> str:
    """The rule in its one spelling, empty for none. Raises BadSelector."""
    if not text.strip():
        return ""
    try:
        return render(parse(text))
    except RuleError as error:
        raise BadSelector(f"rule, {error}", errors=[FieldError("/rule", str(error))]) from error


def selector_key(request: RolloutRequest) -> str:
    """The audience as text: the same devices asked for, the same key."""
    plain: dict[str, object] = {name: sorted(values) for name, values in request.selector.items()}
    if request.rule:
        plain["rule"] = normal_rule(request.rule)
    if request.layer:
        plain["layer"] = [request.layer, request.layer_share]
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def audience_of(row: RolloutRow, layer: LayerRow | None) -> Audience:
    """The audience of a rollout; the slice of its layer is there once it was started."""
    return Audience(
        selector={name: tuple(values) for name, values in row.selector.items()},
        rule=row.rule,
        layer=slice_of(row, layer),
    )


def slice_of(row: RolloutRow, layer: LayerRow | None) -> LayerSlice | None:
    """The buckets of its layer that a rollout holds."""
    if layer is None or row.layer_low is None or row.layer_high is None:
        return None
    return LayerSlice(salt=layer.salt, low=row.layer_low, high=row.layer_high)


def is_partial(row: RolloutRow) -> bool:
    """True for a rollout that is not for every device."""
    return bool(row.selector or row.rule or row.layer)
