"""Paired scores: what one record moves, exact sums here and over parts, and what they are worth."""

import pickle
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import Named

from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.public_search import doubt, pairing, search_on_public_data
from dpbo_core.models.scores.grid import GRID
from dpbo_core.preparation import data_split
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.scoring.in_memory import exact_totals
from dpbo_core.scoring.paired import stretched
from dpbo_core.scoring.partitioned import PartWorker
from dpbo_core.scoring.persons import PersonObjective, Persons
from dpbo_core.space.candidates import grid
from dpbo_core.space.search_space import Real, SearchSpace
from dpbo_core.study_file import StudySpec

STEPS = st.integers(0, GRID)
PAIRED = PrivateGrid(evaluate="tried", base_measure="public", paired=True)


@settings(deadline=None, database=None, derandomize=True, max_examples=400)
@given(STEPS, STEPS, st.integers(1, GRID // 2 - 1))
def test_a_record_s_term_is_its_clipped_difference_on_the_whole_grid(score, reference, clipped):
    """⌊(clip(s − s₀, ±c) + c)·2²⁴/2c⌋, in exact arithmetic; never outside 0 … 2²⁴."""
    (term,) = stretched(np.array([score]), np.array([reference]), clipped)
    difference = min(max(score - reference, -clipped), clipped)
    assert term == Fraction((difference + clipped) * GRID, 2 * clipped).__floor__()
    assert 0 <= term <= GRID


def test_one_record_moves_the_sum_by_the_grid_and_no_more():
    """Every pair of records out of a coarse grid of scores, at every bound: the largest move is 2²⁴, and is met."""
    values = np.linspace(0, GRID, 9).astype(np.int64)
    pairs = np.array(list(product(values, values)))
    for clipped in (1, 7, GRID // 16, GRID // 4, GRID // 2 - 1):
        terms = stretched(pairs[:, 0], pairs[:, 1], clipped)
        others = np.array([3, GRID // 2])
        rest = int(stretched(others, others[::-1], clipped).sum())
        sums = rest + terms
        assert int(sums.max() - sums.min()) == GRID


def test_the_order_of_two_candidates_is_that_of_their_clipped_means():
    rng = np.random.default_rng(0)
    reference = rng.integers(0, GRID, 500)
    clipped = GRID // 20
    for _ in range(50):
        one, other = (np.clip(reference + rng.normal(0, GRID // 30, 500).astype(int), 0, GRID) for _ in range(2))
        means = [np.clip(x - reference, -clipped, clipped).mean() for x in (one, other)]
        sums = [stretched(x, reference, clipped).sum() for x in (one, other)]
        if abs(means[0] - means[1]) > 2 * clipped / GRID:  # one step of rounding
            assert (sums[0] > sums[1]) == (means[0] > means[1])


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


def test_over_parts_it_is_the_same_integer(tables, tmp_path, monkeypatch):
    """A folder of Parquet files against the one table that they make; some cells cannot be read."""
    rng = np.random.default_rng(3)

    def made(n):
        x = rng.normal(size=n)
        return pd.DataFrame({"x": x, "z": rng.normal(size=n), "y": (x + rng.normal(size=n) > 0).astype(int)})

    made(80).to_parquet(tmp_path / "train.parquet")
    whole = made(90)
    whole.loc[[3, 40], "x"] = np.nan
    whole.to_parquet(tmp_path / "whole.parquet")
    (tmp_path / "parts").mkdir()
    for i, at in enumerate((slice(0, 31), slice(31, 32), slice(32, 90))):
        whole.iloc[at].to_parquet(tmp_path / "parts" / f"{i}.parquet")
    monkeypatch.chdir(tmp_path)
    found = []
    for where in ("whole.parquet", "parts"):
        tables["data"] = {
            "training": "train.parquet",
            "validation": where,
            "n_validation": 90,
            "target": "y",
        }
        public, objective = halves(tables)
        found.append(
            [
                objective.paired(public.problem.train(i), public.problem.train(2), clipped).expose()
                for i in (0, 4)
                for clipped in (GRID // 50, GRID // 3)
            ]
        )
    assert found[0] == found[1]
    models = tuple(public.problem.train(i) for i in (4, 2))
    work = PartWorker(objective._reader, public.problem.score, models[:1], (models[1], GRID // 3))
    sent = pickle.loads(pickle.dumps(work))  # as a worker of Dask gets it
    answers = [sent(tmp_path / "parts" / f"{i}.parquet") for i in range(3)]
    assert (sum(both[1] for both, _ in answers), [n for _, n in answers]) == (found[1][3], [31, 1, 58])


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
    pair = pairing(world, found, noise_scale=1.0)
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
        assert pairing(world, found, noise_scale=noise).clipped == min(losses, key=losses.get)
    kept = np.mean(apart[apart > 0] <= pair.clipped)
    assert 0.9 <= kept <= 0.9011
    assert 2 * pair.clipped < 0.15 * GRID


def test_where_pairing_gains_nothing_the_plain_scores_choose():
    world = world_of()
    found = search_on_public_data(world, 256)
    assert pairing(world, found, noise_scale=0.01 * doubt(world, float(found.scores.max()))) is None
    right_or_wrong = replace(world, trainer=Graded(np.where(graded(200, 1) > GRID // 2, GRID, 0)))
    assert pairing(right_or_wrong, search_on_public_data(right_or_wrong, 256), 1.0) is None
    constant = replace(world, trainer=Graded(np.full((50, 30), GRID // 3)))
    assert pairing(constant, search_on_public_data(constant, 256), 1.0) is None


def test_the_price_and_what_its_certificate_shows_are_those_of_plain_scores():
    world = world_of()
    assert PAIRED.plan(world) == replace(PAIRED, paired=False).plan(world)


def test_by_persons_it_is_the_mean_of_each_one_s_terms_and_an_absent_one_differs_by_nothing(tables):
    public, objective = halves(tables)
    records, score = objective._records, public.problem.score
    m = records.expose().n_records
    people = [None if i % 11 == 0 else f"p{i % 7}" for i in range(m)]
    whole = PersonObjective(records, Sensitive(Persons.of(people)), score, 9)
    one, other, clipped = public.problem.train(0), public.problem.train(5), GRID // 9
    terms = stretched(*(model.steps(records.expose(), score) for model in (one, other)), clipped)
    means = [
        int(sum(int(t) for t, p in zip(terms, people, strict=True) if p == f"p{k}")) // people.count(f"p{k}")
        for k in range(7)
    ]
    assert whole.paired(one, other, clipped).expose() == sum(means) + 2 * (GRID // 2)
    assert whole.paired(one, one, clipped).expose() == 9 * (GRID // 2)
