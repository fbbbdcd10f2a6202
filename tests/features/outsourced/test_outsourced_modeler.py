"""The modeller: its kernel, its search, what it fits, and what it must not know."""

import math

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from dpbo.features.outsourced.modeler import Modeler, Prior, RowAnswer
from dpbo_core.search.gp import BlurredSquaredExponential, SquaredExponential
from dpbo_core.theorems import srinivas_2010


def test_the_kernel_is_the_expectation_it_says():
    """Monte Carlo over the places behind two rows: 400,000 pairs, five standard errors; and exact at no blur."""
    rng = np.random.default_rng(0)
    a, b = np.array([0.2, -0.4, 1.0]), np.array([0.9, 0.3, 0.4])
    for lengthscale, blur in ((0.7, 0.3), (2.0, 1.5), (0.5, 0.05)):
        kernel = BlurredSquaredExponential(lengthscale, 1.7, blur, 3)
        moved = (a - b) + blur * rng.normal(size=(400_000, 3)) - blur * rng.normal(size=(400_000, 3))
        seen = 1.7 * np.exp(-0.5 * (moved**2).sum(axis=1) / lengthscale**2)
        (found,) = kernel.matrix(a[None], b[None])[0]
        assert abs(found - seen.mean()) < 5 * seen.std() / math.sqrt(len(seen))
        assert kernel.matrix(a[None], a[None])[0, 0] == 1.7
        assert kernel.column(np.stack([a, b]), a).tolist() == [1.7, found]
    sharp = BlurredSquaredExponential(0.7, 1.7, 0.0, 3).matrix(a[None], b[None])
    assert sharp == pytest.approx(SquaredExponential(0.7, 1.7).matrix(a[None], b[None]), rel=1e-14)


def test_without_noise_it_is_gp_ucb_as_scikit_learn_would_do_it():
    """Ten steps: posterior by scikit-learn, β by Srinivas et al., argmax over the rows not asked about."""
    rng = np.random.default_rng(2)
    Z = rng.random((300, 2)) * 7.0
    f = np.sin(Z).sum(axis=1)
    modeler = Modeler(Z, prior=Prior(1.5, 1.0, 1e-4))
    asked = []
    for step in range(1, 11):
        row = modeler.suggest()
        if asked:
            model = GaussianProcessRegressor(RBF(1.5), alpha=1e-4, optimizer=None).fit(Z[asked], f[asked])
            mean, std = model.predict(Z, return_std=True)
            bound = mean + math.sqrt(srinivas_2010.beta(n_candidates=300, step=step, delta=0.025)) * std
            bound[asked] = -np.inf
            assert bound[row] >= bound.max() - 1e-7
        asked.append(row)
        modeler.tell(row, float(f[row]))


def test_rows_are_asked_once_each_and_then_again():
    Z = np.arange(5.0)[:, None]
    modeler = Modeler(Z, prior=Prior(1.0, 1.0, 1e-4))
    asked = []
    for _ in range(7):
        row = modeler.suggest()
        asked.append(row)
        modeler.tell(row, float(-Z[row, 0]))
    assert sorted(asked[:5]) == [0, 1, 2, 3, 4]
    assert set(asked[5:]) <= set(range(5))


@pytest.mark.parametrize("prior", [None, Prior(2.0, 1.0, 1e-4)])
@pytest.mark.parametrize("t", [3, 15, 16])  # fitted at each, at none since the 12th, and at the 16th
def test_a_replayed_search_stands_where_the_first_one_stood(prior, t):
    rng = np.random.default_rng(4)
    Z = rng.random((200, 3))
    f = np.sin(5 * Z).sum(axis=1)
    first = Modeler(Z, noise_scale=0.05, prior=prior)
    told = []
    for _ in range(t):
        row = first.suggest()
        told.append(RowAnswer(row, float(f[row]), 0.1))
        first.tell(row, float(f[row]), 0.1)
    again = Modeler(Z, noise_scale=0.05, prior=prior)
    again.replay(told)
    assert again.suggest() == first.suggest()


@pytest.mark.parametrize("value", [0.0, 1e90, -1e-90])
def test_constant_and_huge_answers_do_no_harm(value):
    Z = np.random.default_rng(5).random((30, 2))
    modeler = Modeler(Z)
    for _ in range(10):
        row = modeler.suggest()
        modeler.tell(row, value)
    assert len({answer.row for answer in modeler._answers}) == 10
    flat = Modeler(np.ones((4, 2)))
    for _ in range(5):
        flat.tell(flat.suggest(), value)


def test_impossible_answers_are_refused():
    modeler = Modeler(np.zeros((3, 1)))
    for row, value, noise in ((3, 0.0, 0.0), (-1, 0.0, 0.0), (0, math.nan, 0.0), (0, 0.0, math.inf)):
        with pytest.raises(ValueError, match="row of the table"):
            modeler.tell(row, value, noise)
