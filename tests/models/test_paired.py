"""Paired scores: what one record moves, exact sums here and over parts, and what they are worth."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import Named, at_length

from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.public_search import doubt, pairing, public_differences, search_on_public_data
from dpbo_core.models.integer_sums import GRID, stretched
from dpbo_core.models.scoring.in_memory import exact_totals
from dpbo_core.search.search_space import Real, SearchSpace, grid
from dpbo_core.study import StudySpec, data_split

STEPS = st.integers(0, GRID)
PAIRED = PrivateGrid(evaluate="tried", base_measure="public", paired=True)


@settings(deadline=None, database=None, derandomize=True, max_examples=at_length(400))
@given(STEPS, STEPS, st.integers(1, GRID // 2 - 1))
def test_a_record_s_term_is_its_clipped_difference_on_the_whole_grid(score, reference, clipped):
    """⌊(clip(s − s₀, ±c) + c)·2²⁴/2c⌋, in exact arithmetic; never outside 0 … 2²⁴."""
    (term,) = stretched(np.array([score]), np.array([reference]), clipped)
    difference = min(max(score - reference, -clipped), clipped)
    assert term == Fraction((difference + clipped) * GRID, 2 * clipped).__floor__()
    assert 0 <= term <= GRID


def halves(tables):
    public = data_split.public_half(StudySpec.from_dict(tables), ".")
    return public, data_split.sensitive_half(StudySpec.from_dict(tables), ".", public)


def test_the_objective_s_sum_is_that_of_its_records(tables):
    public, objective = halves(tables)
    one, other = public.problem.train(0), public.problem.train(5)
    records, score = objective._records.expose(), public.problem.score
    steps = [model.steps(records, score) for model in (one, other)]
    assert steps[0].sum() == exact_totals([one], records, score)[0][0]
    clipped = GRID // 9
    by_hand = sum(
        (min(max(int(a) - int(b), -clipped), clipped) + clipped) * GRID // (2 * clipped)
        for a, b in zip(*steps, strict=True)
    )
    assert (
        objective.paired(one, other, clipped).expose()
        == by_hand
        == exact_totals([one], records, score, (other, clipped))[1][0]
    )
    assert objective.paired(one, one, clipped).expose() == len(steps[0]) * (GRID // 2)


class Graded:
    """Public records whose scores under two candidates lie near each other, though records differ widely."""

    def __init__(self, steps):
        self.steps, self.n_records = steps, len(steps)

    def train(self, point):
        return Named(round(point["x"] * (self.steps.shape[1] - 1)))

    def public_score(self, point, *, seed):
        return float(self.public_steps(point, seed=seed).mean() / GRID)

    def public_steps(self, point, *, seed):
        return self.steps[:, self.train(point).index]


def graded(n, seed, tops=0.4, N=30):
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, N)
    scores = rng.uniform(0.2, 0.8, (n, 1)) - 0.2 * (x - tops) ** 2 + 0.01 * rng.normal(size=(n, N))
    return np.rint(np.clip(scores, 0, 1) * GRID).astype(np.int64)


def world_of(n_public=200, m=300, **changes):
    from worlds import problem

    base = problem(n_validation=m)
    candidates = grid(SearchSpace({"x": Real(0.0, 1.0)}), {"x": 30})
    return replace(base, candidates=candidates, trainer=Graded(graded(n_public, 1)), **changes)


def test_the_bound_is_that_whose_noise_and_bias_are_least_on_public_records():
    """Of the shares of the differences that a bound may keep; a noise of 1 is worth any bias, and 90% are kept."""
    world = world_of()
    found = search_on_public_data(world, 256)
    differences = public_differences(world, found)
    pair = pairing(world, found, 1.0, differences)
    assert pair.reference == found.tried[int(np.argmax(found.scores))]
    best = np.argsort(-found.scores, kind="stable")[:16]
    steps = world.trainer.steps
    signed = steps[:, best[1:]] - steps[:, best[:1]]
    apart = np.abs(signed)
    for noise in (0.02, 1.0):
        losses = {}
        for share in (0.9, 0.98, 0.995, 0.999, 1.0):
            bound = int(np.quantile(apart[apart > 0], share, method="higher"))
            moved = np.abs((np.clip(signed, -bound, bound) - signed).mean(axis=0)).max()
            losses[bound] = noise * 2 * bound / GRID + moved / GRID
        assert pairing(world, found, noise, differences).clipped == min(losses, key=losses.get)
    kept = np.mean(apart[apart > 0] <= pair.clipped)
    assert 0.9 <= kept <= 0.9011
    assert 2 * pair.clipped < 0.15 * GRID


def test_where_pairing_gains_nothing_the_plain_scores_choose():
    world = world_of()
    found = search_on_public_data(world, 256)
    e, differences = doubt(world, float(found.scores.max())), public_differences(world, found)
    assert pairing(world, found, 0.09 * e, differences) is None
    assert pairing(world, found, 0.11 * e, differences) is not None
    right_or_wrong = replace(world, trainer=Graded(np.where(graded(200, 1) > GRID // 2, GRID, 0)))
    constant = replace(world, trainer=Graded(np.full((50, 30), GRID // 3)))
    for other in (right_or_wrong, constant):
        found = search_on_public_data(other, 256)
        assert pairing(other, found, 1.0, public_differences(other, found)) is None


def test_the_price_and_what_its_certificate_shows_are_those_of_plain_scores():
    world = world_of()
    assert PAIRED.plan(world) == replace(PAIRED, paired=False).plan(world)
