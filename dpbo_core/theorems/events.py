"""The privacy profile of a `dp_accounting` event, for the classes that are listed here; every other one is refused.

| event | `neighbours` | pair |
|---|---|---|
| Gaussian, Laplace, discrete Laplace | add_or_remove, zero_out | the sum moves by its sensitivity |
| Gaussian, Laplace | replace_one | the sum moves by `replaced_moves` times that much |
| Poisson-sampled Gaussian or Laplace | add_or_remove, zero_out | one record joins with probability q |
| Poisson-sampled Gaussian | replace_one | one of two opposite records joins, which covers any replacement |
| zCDP with ξ = 0, no operation | each | that of the stated cost |
| composed, self-composed | each | that of the parts |

Under replace-one an event does not say how far one replaced record moves the sum: PLDAccountant takes twice the
sensitivity (clipped gradients: 2), RdpAccountant once (a count: 1). So it must be stated.
"""

import math
from dataclasses import dataclass
from typing import Any

from dpbo_core.theorems.loss_profile import STEP, LossProfile

FIELDS = {  # of the listed classes, by their own names
    "NoOpDpEvent": (),
    "GaussianDpEvent": ("noise_multiplier",),
    "LaplaceDpEvent": ("noise_multiplier",),
    "DiscreteLaplaceDpEvent": ("noise_parameter", "sensitivity"),
    "PoissonSampledDpEvent": ("sampling_probability", "event"),
    "SelfComposedDpEvent": ("event", "count"),
    "ComposedDpEvent": ("events",),
    "ZCDpEvent": ("rho", "xi"),
}
NEIGHBOURS = ("add_or_remove", "replace_one", "zero_out")


def profile_of_event(
    event: Any, *, neighbours: str, replaced_moves: float | None, step: float = STEP
) -> LossProfile:
    """Return the profile of `event` under `neighbours`.

    Args:
        event: a `dp_accounting` event of a listed class.
        neighbours: "add_or_remove", "zero_out" or "replace_one".
        replaced_moves: how far one replaced record moves the sum, in units of the noise's sensitivity: 2 for
            clipped gradients, 1 for a count. Needed under "replace_one", where noise is added to a sum.
        step: of the grid of losses.

    Raises:
        ValueError: a class that is not listed, noise of scale 0, an unknown relation, or no `replaced_moves`.
    """
    if neighbours not in NEIGHBOURS:
        raise ValueError(f"neighbours must be one of {', '.join(NEIGHBOURS)}")
    if replaced_moves is not None and not 0.0 < replaced_moves <= 2.0:
        raise ValueError("replaced_moves must be above 0 and at most 2")
    parts: list[LossProfile] = []
    _collect(event, 1, _Terms(neighbours == "replace_one", replaced_moves, step), parts)
    profile = parts[0] if parts else LossProfile.of_epsilon_delta(0.0)
    for part in parts[1:]:
        profile = profile.compose(part, step)
    return profile


@dataclass(frozen=True)
class _Terms:
    """The arguments, other than the event, that its privacy profile depends on."""

    replace: bool
    moves: float | None
    step: float


def _collect(event: Any, count: int, terms: _Terms, parts: list[LossProfile]) -> None:
    import dp_accounting as dp

    name = type(event).__name__
    if type(event) is dp.NoOpDpEvent:
        return
    if type(event) is dp.SelfComposedDpEvent:
        _collect(event.event, count * _whole(event.count), terms, parts)
    elif type(event) is dp.ComposedDpEvent:
        for part in event.events:
            _collect(part, count, terms, parts)
    elif type(event) is dp.ZCDpEvent:
        if event.xi != 0.0:
            raise ValueError("a ZCDpEvent needs ξ = 0")
        parts.append(LossProfile.of_zcdp(count * event.rho))
    elif count > 0:
        parts.append(_noise(event, name, count, terms))


def _noise(event: Any, name: str, count: int, terms: _Terms) -> LossProfile:
    """Return the profile of `count` additions of the noise of `event`, sampled or not."""
    import dp_accounting as dp
    from dp_accounting.pld import privacy_loss_distribution as pld

    rate, inner, replace = 1.0, event, terms.replace
    if type(event) is dp.PoissonSampledDpEvent:
        rate, inner = event.sampling_probability, event.event
    named = type(inner).__name__
    gaussian, laplace = type(inner) is dp.GaussianDpEvent, type(inner) is dp.LaplaceDpEvent
    sampled = inner is not event
    discrete = named == "DiscreteLaplaceDpEvent" and not sampled and not replace
    if not (gaussian or discrete or (laplace and not (sampled and replace))):
        raise ValueError(f"{name} of {named}" * sampled or f"{name} is not an event that dpbo can price")
    if replace and terms.moves is None:
        raise ValueError(
            f"{name} under replace_one needs replaced_moves: how far one replaced record moves the sum"
        )
    if sampled and not 0.0 <= rate <= 1.0:
        raise ValueError("a sampling probability lies between 0 and 1")
    if sampled and rate == 0.0:
        return LossProfile.of_epsilon_delta(0.0)
    scale = inner.noise_parameter if discrete else inner.noise_multiplier
    if not 0.0 < scale < math.inf:
        raise ValueError(f"{named} must have noise of a positive scale")
    moves = terms.moves if replace and terms.moves is not None else 1.0
    grid = {"value_discretization_interval": terms.step}
    if discrete:
        made = pld.from_discrete_laplace_mechanism(scale, sensitivity=inner.sensitivity, **grid)
    elif laplace:
        made = pld.from_laplace_mechanism(scale / moves, sampling_prob=rate, **grid)
    elif not sampled:  # the sum of `count` Gaussians is one
        sigma = scale / math.sqrt(count) / moves
        return LossProfile.of_pld(pld.from_gaussian_mechanism(sigma, **grid))
    else:
        relation = dp.NeighboringRelation.REPLACE_ONE if replace else dp.NeighboringRelation.ADD_OR_REMOVE_ONE
        made = pld.from_gaussian_mechanism(scale, sampling_prob=rate, neighboring_relation=relation, **grid)
    return LossProfile.of_pld(made.self_compose(count) if count > 1 else made)


def _whole(count: Any) -> int:
    if not (isinstance(count, int) and count >= 0):
        raise ValueError("a SelfComposedDpEvent repeats a whole number of times")
    return count


def event_json(event: Any) -> dict[str, Any]:
    """Return an event as plain JSON: its `class_name` and its fields; ValueError for a class that is not listed."""
    import dp_accounting

    name = type(event).__name__
    if name not in FIELDS or type(event) is not getattr(dp_accounting.dp_event, name):
        raise ValueError(f"{name} is not an event that dpbo can price")
    fields = {field: _field_json(getattr(event, field)) for field in FIELDS[name]}
    return {"class_name": name, **fields}


def _field_json(value: Any) -> Any:
    if isinstance(value, int | float):
        return value
    return list(map(event_json, value)) if isinstance(value, list | tuple) else event_json(value)


def event_from_json(data: Any) -> Any:
    """Return the event that `event_json` wrote; ValueError for anything else. Nothing is imported by its name."""
    import dp_accounting

    name = data.get("class_name") if isinstance(data, dict) else None
    if name not in FIELDS:
        raise ValueError(f"class_name must be one of {', '.join(FIELDS)}")
    if set(data) - {"class_name", "module_name"} != set(FIELDS[name]):
        raise ValueError(f"{name} has the fields {', '.join(FIELDS[name]) or 'none'}")
    fields = {field: _field_value(field, data[field]) for field in FIELDS[name]}
    return getattr(dp_accounting.dp_event, name)(**fields)


def _field_value(field: str, value: Any) -> Any:
    if field == "event":
        return event_from_json(value)
    if field == "events":
        if not isinstance(value, list):
            raise ValueError("events is a list")
        return list(map(event_from_json, value))
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{field} is a number")
    return value


def exact_cost(event: Any, *, neighbours: str, replaced_moves: float | None) -> tuple[float, float] | None:
    """Return (ε, ρ) of an event of unsampled noise: the sums of its pure ε and of its Gaussian ρ; None for others.

    Raises: as `profile_of_event`.
    """
    import dp_accounting as dp

    if type(event) in (dp.NoOpDpEvent, dp.ZCDpEvent):
        profile_of_event(event, neighbours=neighbours, replaced_moves=replaced_moves)
        return 0.0, getattr(event, "rho", 0.0)
    if type(event) in (dp.GaussianDpEvent, dp.LaplaceDpEvent):
        if neighbours == "replace_one" and replaced_moves is None:
            profile_of_event(event, neighbours=neighbours, replaced_moves=None)  # refuses it by name
        moves = replaced_moves if neighbours == "replace_one" and replaced_moves is not None else 1.0
        scale = event.noise_multiplier / moves
        if not 0.0 < scale < math.inf:
            raise ValueError(f"{type(event).__name__} must have noise of a positive scale")
        return (1.0 / scale, 0.0) if type(event) is dp.LaplaceDpEvent else (0.0, 0.5 / scale**2)
    parts, count = [], 1
    if type(event) is dp.SelfComposedDpEvent:
        parts, count = [event.event], _whole(event.count)
    elif type(event) is dp.ComposedDpEvent:
        parts = list(event.events)
    else:
        return None
    costs = [exact_cost(part, neighbours=neighbours, replaced_moves=replaced_moves) for part in parts]
    stated = [cost for cost in costs if cost is not None]
    if len(stated) < len(costs):
        return None
    return count * sum(epsilon for epsilon, _ in stated), count * sum(rho for _, rho in stated)
