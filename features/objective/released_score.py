"""A released score of a private objective: what a noisy integer stands for, by means and by counts of pairs."""

from dataclasses import dataclass
from typing import Any

from dpbo.features.objective.price import ObjectivePrice
from dpbo_core.methods.pair_bounds import NoiseTail
from dpbo_core.methods.pair_draws import Unit, auc_caption
from dpbo_core.theorems.feldman_cousins_1998 import bounded_interval


@dataclass(frozen=True)
class Score:
    """A released score.

    Attributes:
        value: as it was drawn; larger is better. Not clamped. None where the records have too few of one class for
            an AUC at this ε, as the noised number of pairs has it.
        noise: standard deviation of the noise in it; None likewise.
        interval: of the exact score on these records, 90%: the noise is all that it allows for; None likewise.
    """

    value: float | None
    noise: float | None
    interval: tuple[float, float] | None


def score_of_draw(price: ObjectivePrice, unit: Unit, number: int, draw: int) -> Score:
    """The score, with its noise and interval, that noisy integer `draw` of score `number` stands for."""
    if not unit.stated:
        return Score(None, None, None)
    mechanism = price.scores()[number - 1]
    value, noise = unit.score(draw), mechanism.scale * unit.per_step
    if unit.pairs is None:
        return Score(value, noise, bounded_interval(value, noise, price.problem.score_range))
    return Score(value, noise, unit.interval([draw], NoiseTail.of(mechanism)))


def best_caption(
    price: ObjectivePrice, unit: Unit, draw: int, score: float, interval: tuple[float, float], n_draws: int
) -> dict[str, Any]:
    """What a release says of the best candidate: score, interval and metric; of pairs also their number.

    Args:
        price: the objective's.
        unit: of its scores.
        draw: the candidate's noisy integer, the interval of an AUC by pairs.
        score: by the posterior of all scores.
        interval: likewise, of a mean.
        n_draws: from how many draws it was chosen.
    """
    problem = price.problem
    caption: dict[str, Any] = {"score": score, "interval": list(interval)}
    if unit.pairs is not None:
        ends = unit.interval([draw], NoiseTail.of(price.scores()[0]), n_draws)
        caption = auc_caption(problem, unit, score, ends)
    natural, name = problem.score.natural_unit, problem.model.score_name
    return {**caption, "metric": natural.metric(name, caption["score"], caption["interval"])}
