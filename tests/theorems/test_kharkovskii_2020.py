"""The paper's own numbers, and its statements about distances against drawn projections."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbo_core.theorems import kharkovskii_2020 as paper


def paper_grid():
    """100 × 100, centred, THEN scaled to a largest norm of 25."""
    axis = np.arange(100.0)
    X = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    X -= X.mean(axis=0)
    return X * (25.0 / np.linalg.norm(X, axis=1).max())


def test_the_papers_own_check():
    omega = paper.singular_value_floor(epsilon=math.exp(1.1), delta=1e-5, projection_dim=10)
    sigma_min = np.linalg.svd(paper_grid(), compute_uv=False).min()
    assert omega == pytest.approx(976.07, abs=5e-3)
    assert sigma_min == pytest.approx(1030.88, abs=5e-3)
    assert omega < sigma_min


@pytest.mark.parametrize(("log_epsilon", "printed", "largest"), [(1.1, 10, 11), (1.3, 15, 15), (1.5, 20, 22)])
def test_the_largest_dimension_beside_the_printed_one(log_epsilon, printed, largest):
    sigma_min = float(np.linalg.svd(paper_grid(), compute_uv=False).min())
    found = paper.largest_projection_dim(epsilon=math.exp(log_epsilon), delta=1e-5, singular_value=sigma_min)
    assert found == largest
    assert printed <= found


def test_of_the_dimensions_that_the_tables_try_the_printed_one_is_the_largest():
    """Tables 1 to 3: the values of r that each tries; "the largest value" is true among them."""
    sigma_min = float(np.linalg.svd(paper_grid(), compute_uv=False).min())
    tables = {
        (1.1, 10): (3, 6, 8, 10, 15, 20),
        (1.3, 15): (3, 9, 12, 15, 20, 30),
        (1.5, 20): (5, 10, 15, 20, 30, 50),
    }
    for (log_epsilon, printed), tried in tables.items():
        floors = {
            r: paper.singular_value_floor(epsilon=math.exp(log_epsilon), delta=1e-5, projection_dim=r)
            for r in tried
        }
        assert max(r for r, floor in floors.items() if floor <= sigma_min) == printed


@settings(deadline=None)
@given(st.floats(0.01, 100), st.floats(1e-12, 0.5), st.floats(0.0, 1e4))
def test_the_largest_dimension_passes_and_the_next_fails(epsilon, delta, sigma):
    r = paper.largest_projection_dim(epsilon=epsilon, delta=delta, singular_value=sigma)
    at, beyond = (
        paper.singular_value_floor(epsilon=epsilon, delta=delta, projection_dim=q) for q in (r or 1, r + 1)
    )
    assert r == 0 or at <= sigma
    assert sigma < beyond


def test_lemma_1_and_theorem_2_hold_for_drawn_projections():
    """200 draws at μ = 0.05; more than 30 failures have probability below 1e-6 if the lemma is true."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 5))
    X -= X.mean(axis=0)
    nu, mu = 0.45, 0.05
    r = paper.lemma_1_projection_dim(n_rows=12, failure_probability=mu, distortion=nu)
    assert r == math.ceil(8 * math.log(144 / mu) / nu**2)
    U, S, Vt = np.linalg.svd(X, full_matrices=False)
    pairs = np.triu_indices(12, 1)
    before = ((X[pairs[0]] - X[pairs[1]]) ** 2).sum(axis=1)
    for floor in (0.0, 2.0 * S.min()):
        raised = U * np.sqrt(S**2 + (floor if S.min() < floor else 0.0) ** 2) @ Vt
        low, high = paper.theorem_2_distance_bounds(distortion=nu, singular_value=S.min(), floor=floor)
        failures = 0
        for _ in range(200):
            Z = raised @ rng.normal(size=(5, r)) / math.sqrt(r)
            after = ((Z[pairs[0]] - Z[pairs[1]]) ** 2).sum(axis=1)
            failures += bool(np.any(after < low * before) or np.any(after > high * before))
        assert failures <= 30


def test_lemma_1_refuses_what_it_does_not_cover():
    for nu, mu in ((0.5, 0.1), (0.0, 0.1), (0.1, 0.0), (0.1, 1.0)):
        with pytest.raises(ValueError, match="Lemma 1"):
            paper.lemma_1_projection_dim(n_rows=10, failure_probability=mu, distortion=nu)


def test_theorem_2_at_the_edges():
    assert paper.theorem_2_distance_bounds(distortion=0.25, singular_value=2.0, floor=2.0) == (0.75, 1.25)
    assert paper.theorem_2_distance_bounds(distortion=0.25, singular_value=2.0, floor=4.0) == (0.75, 1.25 * 5)
    assert paper.theorem_2_distance_bounds(distortion=0.25, singular_value=0.0, floor=4.0)[1] == math.inf


def test_theorem_3_by_hand_and_its_conditions():
    assert paper.theorem_3_distortion(approximation=0.1, scaled_diameter=2.0, answer_bound=3.0) == pytest.approx(
        0.1 / (2 * math.sqrt(3) * 4 * 3)
    )
    assert paper.theorem_3_distortion(approximation=1e9, scaled_diameter=10.0, answer_bound=1.0) == 0.02
    assert paper.theorem_3_distortion(approximation=1e9, scaled_diameter=0.1, answer_bound=1.0) == 0.5
    bound = paper.theorem_3_regret_bound(
        approximation=0.5, beta=4.0, information_gain=3.0, noise_variance=1.0, n_steps=100, constants=(0.5, 1.0)
    )
    by_hand = 0.25 + 24 * 4 * math.log(100) / 100 + 24 / math.log(2) * 4 * 3 / 100
    assert bound == pytest.approx(math.sqrt(by_hand))
    assert paper.definition_3_diagonally_dominant(np.eye(3))
    near = np.array([[1.0, 0.5], [0.5, 1.0]])  # √(2 − 1) + 1 = 2 times a half
    assert paper.definition_3_diagonally_dominant(near)
    assert not paper.definition_3_diagonally_dominant(np.array([[1.0, 0.51], [0.51, 1.0]]))


def searched(seed, *, lengthscale, n_steps):
    """GP-UCB on the paper's synthetic task: rows asked about and answers. σ_y = 1, σ_n² = 1e-5, δ′ = 0.025."""
    rng, X, n = np.random.default_rng(seed), paper_grid(), 10_000
    axis = X[:100, 0]
    L = np.linalg.cholesky(np.exp(-0.5 * ((axis[:, None] - axis) / lengthscale) ** 2) + 1e-8 * np.eye(100))
    f = (L @ rng.normal(size=(100, 100)) @ L.T).ravel()
    mean, variance, rows, answers = np.zeros(n), np.ones(n), [], []
    factors = np.empty((n_steps, n))
    for t in range(1, n_steps + 1):
        width = math.sqrt(2 * math.log(n * t**2 * math.pi**2 / (6 * 0.025)))
        i = int(np.argmax(mean + width * np.sqrt(np.maximum(variance, 0)))) if rows else int(rng.integers(n))
        rows.append(i)
        answers.append(f[i] + math.sqrt(1e-5) * rng.normal())
        column = np.exp(-0.5 * ((X - X[i]) ** 2).sum(axis=1) / lengthscale**2)
        column -= factors[: t - 1].T @ factors[: t - 1, i]
        factor = column / math.sqrt(column[i] + 1e-5)
        mean = mean + factor * (answers[-1] - mean[i]) / math.sqrt(column[i] + 1e-5)
        variance = variance - factor**2
        factors[t - 1] = factor
    return rows, np.array(answers)


@pytest.mark.parametrize("lengthscale", [1.25, 6.0])
def test_theorem_3_assumes_a_diagonal_dominance_that_its_own_experiment_never_has(lengthscale):
    """20 functions on the paper's grid: the search comes near what it has seen within 20 rows, every time."""
    X, first = paper_grid(), []
    for seed in range(20):
        rows, _ = searched(seed, lengthscale=lengthscale, n_steps=20)
        apart = ((X[rows][:, None] - X[rows]) ** 2).sum(axis=-1)
        K = np.exp(-0.5 * apart / lengthscale**2)
        dominant = [paper.definition_3_diagonally_dominant(K[:t, :t]) for t in range(1, 21)]
        assert dominant[0]
        assert not dominant[-1]
        first.append(1 + dominant.index(False))
    assert min(first) == 3
    assert 4 <= np.median(first) <= 6


def test_theorem_3_asks_for_more_dimensions_than_its_floor_allows_on_every_task_of_that_size():
    """ν ≤ 2/d² with d = diam/l = 50/6, so r ≥ 8 log(n²/μ)/ν² = 213,248, and σ_min ≥ ω only for r ≤ 11."""
    X = paper_grid()
    assert np.linalg.norm(X[0] - X[-1]) == pytest.approx(50.0)
    sigma_min = float(np.linalg.svd(X, compute_uv=False).min())
    for lengthscale, least in ((1.25, 1.13e8), (6.0, 213_248)):
        nu = paper.theorem_3_distortion(
            approximation=math.inf, scaled_diameter=50.0 / lengthscale, answer_bound=1.0
        )
        r = paper.lemma_1_projection_dim(n_rows=10_000, failure_probability=0.025, distortion=nu)
        assert r == pytest.approx(least, rel=0.02)
        assert paper.largest_projection_dim(epsilon=math.exp(1.1), delta=1e-5, singular_value=sigma_min) < r


def test_theorem_3_bounds_answers_that_are_unbounded():
    """y ~ N(0, σ_y² + σ_n²) at any row: |y| ≤ L fails with a probability, and δ_ucb is spent to the last part."""
    delta_ucb = 0.05
    mu, delta_prime = delta_ucb / 2, delta_ucb / 2  # of Lemma 1, and of β_t
    for L in (1.0, 3.0, 5.0, 8.0):
        beyond = math.erfc(L / math.sqrt(2 * (1 + 1e-5)))
        assert beyond > 0.0
        assert mu + delta_prime + beyond > delta_ucb
    largest = [np.abs(searched(seed, lengthscale=1.25, n_steps=50)[1]).max() for seed in range(6)]
    assert max(largest) > 2.5  # a search for the maximum finds what is rare elsewhere


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 10**6), st.floats(1e-4, 0.5), st.integers(1, 10**7))
def test_the_least_distortion_of_so_many_columns_is_lemma_1_solved(n, mu, r):
    nu = paper.lemma_1_distortion(n_rows=n, failure_probability=mu, projection_dim=r)
    if nu == math.inf:
        least = paper.lemma_1_projection_dim(n_rows=n, failure_probability=mu, distortion=math.nextafter(0.5, 0.0))
        assert least >= r
    else:
        assert paper.lemma_1_projection_dim(n_rows=n, failure_probability=mu, distortion=nu) in (r, r + 1)


@pytest.mark.parametrize("ratio", [0.0, 0.5, 3.0, 100.0])
def test_remark_2s_constant_bounds_the_covariances_as_theorem_3s_does(ratio):
    """No pair within the diameter changes its covariance, relatively, by more than the constant over 2√3 L."""
    nu, d, L = 0.05, 2.0, 1.7
    given_ = {"distortion": nu, "singular_value": 1.0, "floor": ratio}
    found = paper.remark_2_approximation(**given_, scaled_diameter=d, answer_bound=L) / (2 * math.sqrt(3) * L)
    low, high = paper.theorem_2_distance_bounds(**given_)
    a = np.linspace(0, d**2 / 2, 500)[:, None]
    changed = np.abs(np.exp(-a * np.linspace(low, high, 200)) / np.exp(-a) - 1.0).max()
    assert 0.0 < changed <= found
    if ratio <= 1.0:  # ω = σ_min raises nothing: ε_ucb itself
        assert found == pytest.approx(d**2 * nu)
