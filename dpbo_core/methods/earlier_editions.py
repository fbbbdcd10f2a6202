"""What a released path tells a later edition's search: scores with the deviations of their noise; that search."""

from collections.abc import Callable, Sequence
from functools import partial

from dpbo_core.methods.contract import ReleasedScores
from dpbo_core.privacy.release import Release, step_score
from dpbo_core.search.bo import AveragedSearch
from dpbo_core.search.estimates import NORMAL_90, ScoreMap
from dpbo_core.search.learning import LearningSearch
from dpbo_core.search.search_space import EarlierEdition

EQUALITY_TOLERANCE = 1e-9  # relative: two numbers that were computed alike


def steps_and_look(release: Release, look: str) -> ReleasedScores:
    """Return the scores in a released path: each step's and, if the release's interval is that of the draw named
    `look`, the interval's middle.
    """
    value, unit = release.value, release.score_per_unit
    if value["score"] is None:
        return ()
    scales = {spend.what: spend.noise_scale * unit for spend in release.spends}
    scores = [
        (step["hyperparameters"], float(step["score"]), scales[step_score(step["step"])])
        for step in value["trajectory"]
    ]
    if look in scales:
        low, high = value["interval"]
        if abs((high - low) / 2.0 - NORMAL_90 * scales[look]) <= EQUALITY_TOLERANCE * (high - low):
            scores.append((value["hyperparameters"], (low + high) / 2.0, scales[look]))
    return tuple(scores)


def search_after(
    earlier: Sequence[EarlierEdition], score_map: ScoreMap, scale: float
) -> Callable[..., AveragedSearch | LearningSearch]:
    """Return a function that begins a search with the scores of `earlier` editions, in units of `scale`; an
    ordinary search if there are none.
    """
    past = [
        [(one.index, score_map.mapped(one.score), max((one.deviation / scale) ** 2, 1e-10)) for one in item.scores]
        for item in earlier
    ]
    return partial(LearningSearch, past=past) if any(past) else AveragedSearch
