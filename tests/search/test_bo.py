"""The search: it finds maxima, replays to the last bit, and its acquisitions are what their formulas say."""

import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import norm

from dpbo_core.search.bo import UCB, BayesianSearch, ExpectedImprovement, acquisition_named
from dpbo_core.search.gp import Matern52, Posterior, SquaredExponential
from dpbo_core.theorems import srinivas_2010

ROOT = Path(__file__).parents[2]
QUIET = settings(deadline=None, database=None, derandomize=True, max_examples=30)
LINE = np.linspace(0.0, 1.0, 200)[:, None]


def wave(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """The maximum near x = 0.79, a lower one near 0.22 and a valley between."""
    x = X[:, 0]
    return np.sin(11.0 * x + 5.4) * (0.5 + x) - 0.3 * x


def search(
    candidates: NDArray[np.float64],
    scores: NDArray[np.float64],
    name: str,
    steps: int,
    expected: int = 0,
) -> BayesianSearch:
    found = BayesianSearch(Posterior(candidates, Matern52(0.2), 1e-6, expected=expected), acquisition_named(name))
    for _ in range(steps):
        index = found.ask()
        found.tell(index, float(scores[index]))
    return found


@pytest.mark.parametrize("name", ["ucb", "ei"])
def test_the_maximum_on_a_line_within_15_steps(name: str) -> None:
    scores = wave(LINE)
    found = search(LINE, scores, name, 15)
    assert scores.max() - scores[list(found.visited)].max() < 0.01
    assert scores.max() - scores[int(np.argmax(found.posterior.mean))] < 0.01


@QUIET
@given(
    name=st.sampled_from(("ucb", "ei")),
    told=st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=8),
)
def test_the_same_values_take_the_same_path(name: str, told: list[float]) -> None:
    def new() -> BayesianSearch:
        return BayesianSearch(Posterior(LINE, Matern52(0.3), 0.01, 0.1), acquisition_named(name))

    first, again, path = new(), new(), []
    for value in told:
        path.append(first.ask())
        assert first.ask() == path[-1]  # asking changes nothing
        first.tell(path[-1], value)
    for index, value in zip(path, told, strict=True):  # a rerun tells what was recorded without asking
        again.tell(index, value)
    assert again.ask() == first.ask()
    assert again.visited == first.visited
    assert again.step == len(told) + 1
    np.testing.assert_array_equal(again.posterior.mean, first.posterior.mean)


@pytest.mark.parametrize(
    ("candidates", "first"),
    [
        ([[0.0], [0.4], [0.6], [1.0]], 1),
        ([[0.9, 0.5], [0.5, 0.5], [0.5, 0.5]], 1),
        ([[0.0, 0.5], [0.25, 0.25]], 1),
        ([[0.3]], 0),
    ],
)
def test_the_first_candidate_is_nearest_to_the_centre(candidates: list[list[float]], first: int) -> None:
    for name in ("ucb", "ei"):
        found = BayesianSearch(Posterior(np.array(candidates), Matern52(0.3), 0.1), acquisition_named(name))
        assert found.ask() == first
        assert found.step == 1


def test_equals_go_to_the_lowest_index() -> None:
    candidates = np.array([[0.0], [0.0], [0.5], [1.0], [1.0]])
    found = BayesianSearch(Posterior(candidates, Matern52(0.3), 0.1), UCB(4.0))
    found.tell(2, 0.0)
    assert found.ask() == 0
    found.tell(0, -1.0)
    assert found.ask() == 3


def test_a_space_of_one_candidate() -> None:
    for name in ("ucb", "ei"):
        found = BayesianSearch(Posterior(np.empty((1, 0)), Matern52(0.3), 0.0), acquisition_named(name))
        for _ in range(5):
            found.tell(found.ask(), 0.25)
        assert found.posterior.mean[0] == pytest.approx(0.25, abs=1e-9)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_refused_unseen(value: float) -> None:
    found = BayesianSearch(Posterior(LINE, Matern52(0.3), 0.1), UCB())
    with pytest.raises(ValueError, match=r"^an observed value is not finite$") as caught:
        found.tell(0, value)
    assert type(caught.value) is ValueError
    assert found.step == 1
    assert found.visited == []


def test_other_refusals() -> None:
    found = BayesianSearch(Posterior(LINE, Matern52(0.3), 0.1), UCB())
    for index in (-1, 200):
        with pytest.raises(ValueError, match="is not one of the 200"):
            found.tell(index, 0.4711)
    for beta in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="beta"):
            acquisition_named("ucb", beta=beta)
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="delta"):
            UCB(delta=delta)


def test_representations_show_no_score() -> None:
    found = BayesianSearch(Posterior(LINE, Matern52(0.3), 0.1), UCB())
    found.tell(3, 0.4711)
    assert "4711" not in repr(found) + repr(found.posterior) + str(found)


def told_posterior() -> tuple[Posterior, list[int]]:
    posterior, visited = Posterior(LINE, SquaredExponential(0.15), 0.05), [20, 90, 150, 90]
    for index, value in zip(visited, (0.3, 1.2, -0.4, 0.7), strict=True):
        posterior.observe(index, value)
    return posterior, visited


def test_ucb_is_its_formula_and_beta_stands_under_the_root() -> None:
    posterior, visited = told_posterior()
    for t in (1, 2, 17):
        beta = 2.0 * math.log(200 * t * t * math.pi**2 / 6.0 / 0.1)
        np.testing.assert_allclose(
            UCB().scores(posterior, t, visited), posterior.mean + math.sqrt(beta) * posterior.std, atol=1e-14
        )
        assert UCB(delta=0.02).beta_at(200, t) == srinivas_2010.beta(n_candidates=200, step=t, delta=0.02)
    np.testing.assert_array_equal(UCB(0.0).scores(posterior, 9, visited), posterior.mean)
    np.testing.assert_allclose(
        acquisition_named("ucb", beta=9.0).scores(posterior, 9, visited), posterior.mean + 3.0 * posterior.std
    )


def test_expected_improvement_is_an_expectation() -> None:
    posterior, visited = told_posterior()
    ours = ExpectedImprovement().scores(posterior, 5, visited)
    incumbent = max(posterior.mean[i] for i in visited)
    assert incumbent < 1.2  # the luckiest observation is not the incumbent
    for i in (0, 20, 60, 90, 199):
        mu, sigma = float(posterior.mean[i]), float(posterior.std[i])
        exact, _ = quad(
            lambda f, mu=mu, sigma=sigma: (f - incumbent) * norm.pdf(f, mu, sigma),
            incumbent,
            max(incumbent, mu) + 12.0 * sigma,
            epsabs=1e-13,
        )
        assert ours[i] == pytest.approx(exact, abs=1e-10)
    nothing_visited = ExpectedImprovement().scores(posterior, 5, [])
    assert (nothing_visited <= ours).all()  # then the incumbent is the best mean anywhere


class Known:
    """A posterior that says what it is told to say."""

    def __init__(self, mean: list[float], std: list[float]) -> None:
        self.mean, self._std = np.array(mean), np.array(std)

    @property
    def std(self) -> NDArray[np.float64]:
        return self._std.copy()


def test_expected_improvement_where_nothing_is_uncertain() -> None:
    known = Known([0.0, 1.0, 2.0, -5.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0, 1e-200, 1.0])
    ours = ExpectedImprovement().scores(known, 2, [1])  # type: ignore[arg-type]
    np.testing.assert_allclose(ours, [0.0, 0.0, 1.0, 0.0, 0.0, 1.0 / math.sqrt(2.0 * math.pi)], atol=1e-15)


@pytest.mark.parametrize("name", ["ucb", "ei"])
@pytest.mark.parametrize("expected", [0, 50])
def test_memory_of_a_search(name: str, expected: int) -> None:
    N, T = 20_000, 50
    candidates = np.random.default_rng(0).random((N, 3))
    scores = wave(candidates)
    search(candidates[:100], scores[:100], name, 3)  # what is imported on first use is not the search's
    tracemalloc.start()
    search(candidates, scores, name, T, expected=expected)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 8 * N * (T + 8)
