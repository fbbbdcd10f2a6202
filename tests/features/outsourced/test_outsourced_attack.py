"""The attack that refutes Theorem 1 of Kharkovskii et al. (2020), and the same attack on the sound transform.

The adversary of differential privacy knows every row but one. The published table is an affine image of the rows
under one secret matrix, so least squares on the known rows finds the matrix; the target row follows.
"""

import math

import numpy as np
import pytest
from exchanges import world
from scipy import stats

from dpbo.features.outsourced.box import Outsourced
from dpbo.features.outsourced.curator import Vault
from dpbo.features.outsourced.geometry import image, raised
from dpbo.features.outsourced.messages import read_published
from dpbo_core.data.table import table_of
from dpbo_core.mechanisms.noise import OperatingSystemNoise
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.theorems.kharkovskii_2020 import singular_value_floor

BY_ONE = NeighboringRelation.ROW_MOVES_BY_ONE


def solved_map(known, images):
    """A and b of z = xA + b, from the rows that the adversary knows."""
    design = np.column_stack([known, np.ones(len(known))])
    solution, *_ = np.linalg.lstsq(design, images, rcond=None)
    return solution[:-1], solution[-1]


def rebuilt(known, images, target_image):
    """The target row, where there are at least as many columns published as there are."""
    A, b = solved_map(known, images)
    return (target_image - b) @ np.linalg.pinv(A)


def residual(known, images, target_image, guess):
    """How far the target's image is from that of a guess: what tells neighbours apart where r < d."""
    A, b = solved_map(known, images)
    return float(np.linalg.norm(target_image - guess @ A - b))


def published(X, rng, epsilon, r):
    floor = singular_value_floor(epsilon=epsilon, delta=1e-5, projection_dim=r)
    return raised(X, floor) @ rng.standard_normal((X.shape[1], r)) / math.sqrt(r)


def rows(rng, scale, n=40, d=3):
    return rng.normal(size=(n, d)) * scale + rng.normal(size=d)


@pytest.mark.parametrize("scale", [1.0, 1e7], ids=["raised", "not raised"])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, math.e**3])
@pytest.mark.parametrize("r", [3, 5, 12])
def test_the_target_row_is_rebuilt_at_any_epsilon_in_both_branches(scale, epsilon, r):
    rng = np.random.default_rng(1)
    X = rows(rng, scale * (1e3 if epsilon < 1 and scale > 1 else 1))
    centred = X - X.mean(axis=0)
    floor = singular_value_floor(epsilon=epsilon, delta=1e-5, projection_dim=r)
    assert (np.linalg.svd(centred, compute_uv=False).min() < floor) == (scale == 1.0)  # each branch is meant
    Z = published(X, rng, epsilon, r)
    found = rebuilt(X[1:], Z[1:], Z[0])
    assert np.abs(found - X[0]).max() <= 1e-9 * np.abs(X).max()


@pytest.mark.parametrize("r", [1, 2])
def test_neighbours_are_told_apart_with_certainty_where_fewer_columns_are_published(r):
    rng = np.random.default_rng(2)
    for _ in range(50):
        X = rows(rng, 5.0)
        other = X[0] + np.array([1.0, 0.0, 0.0])  # a neighbour by the paper's definition
        Z = published(X, rng, 0.1, r)
        true, false = (residual(X[1:], Z[1:], Z[0], guess) for guess in (X[0], other))
        assert true < 1e-6 * false


def test_the_attack_works_on_the_file_that_is_published(tmp_path):
    """As the paper's modeller sees it, who knows which row is whose."""
    w = world(tmp_path, public=True)
    release = w.publish(Outsourced(0.1, 1e-5, transform="published", dim=6)).release
    X = np.loadtxt(tmp_path / "X.csv", delimiter=",", skiprows=1)
    X = X[Vault(w.vaults / release.release_id).order(60)]
    table, _ = read_published(tmp_path / "Z.parquet")
    assert np.abs(rebuilt(X[1:], table.rows[1:], table.rows[0]) - X[0]).max() < 1e-9
    assert table.noise_scale == 0.0
    assert table.guarantee["epsilon"] is None
    assert release.guarantee.evidence.refuted


def sound(X, mechanism, geometry):
    value = image(table_of({f"x{j}": column for j, column in enumerate(X.T)}), geometry)
    return mechanism.prepare(mechanism.spend("table"), OperatingSystemNoise())(value) * mechanism.unit


def test_against_the_sound_transform_the_attack_does_no_better_than_its_noise_allows():
    """Cramér–Rao: no unbiased estimate of the row errs less than τ√d.

    150 publications of 40 rows: the mean square has 450 degrees of freedom, and 0.84² of its expectation is 4.4
    standard deviations below it. The adversary is given P as well, and then needs no least squares.
    """
    rng = np.random.default_rng(3)
    X = rows(rng, 1.0)
    box = Outsourced(1.0, 1e-5, relation=BY_ONE)
    mechanism, geometry = box.mechanism(*X.shape), box.geometry(3)
    tau = mechanism.scale * mechanism.unit
    solved, given = [], []
    for _ in range(150):
        Z = sound(X, mechanism, geometry)
        solved.append(rebuilt(X[1:], Z[1:], Z[0]) - X[0])
        given.append(Z[0] - X[0])
    bound = tau * math.sqrt(3)
    for errors in (solved, given):
        assert np.sqrt((np.array(errors) ** 2).sum(axis=1).mean()) >= 0.84 * bound
    assert np.sqrt((np.array(given) ** 2).sum(axis=1).mean()) <= 1.16 * bound  # and it is no larger than need be


def audited_epsilon(mechanism, Q, Q_other, delta, n, share=1.0):
    """A lower confidence bound (failure below 1e-6) on ε from n draws on each of two neighbours.

    The best statistic is the image of the moved row along its move; the event is a threshold chosen on one half of
    the draws and counted on the other.
    """
    direction = (Q_other - Q).astype(float)
    direction /= np.linalg.norm(direction)
    noise = mechanism.prepare(mechanism.spend("table"), OperatingSystemNoise())
    drawn = noise(Sensitive(np.zeros(mechanism.shape, np.int64))) * share @ direction
    here, there = drawn[:n] + Q @ direction, drawn[n:] + Q_other @ direction
    best = 0.0
    for threshold in np.quantile(there[: n // 2], np.linspace(0.5, 0.999, 12)):
        k1, k0 = (int((x[n // 2 :] > threshold).sum()) for x in (there, here))
        half, alpha = n - n // 2, 1e-6 / 24
        low = stats.beta.ppf(alpha, k1, half - k1 + 1) if k1 else 0.0
        high = stats.beta.ppf(1 - alpha, k0 + 1, half - k0) if k0 < half else 1.0
        if low > delta:
            best = max(best, math.log((low - delta) / high))
    return best


@pytest.mark.parametrize("relation", [NeighboringRelation.REPLACE_ONE, BY_ONE])
@pytest.mark.parametrize(
    ("n", "share", "seen"), [(4_000, 0.125, 0.15), pytest.param(10_000, 0.25, 0.3, marks=pytest.mark.slow)]
)
def test_an_audit_of_the_curator_stays_under_epsilon_and_sees_less_noise(relation, n, share, seen):
    """n draws on each of two neighbours; a curator with an eighth of the noise is caught, by 10,000 a quarter."""
    epsilon, delta = 3.0, 1e-5
    box = Outsourced(epsilon, delta, relation=relation, norm_bound=2.0)
    geometry = box.geometry(2)
    ends = [[0.6, 0.8], [-0.6, -0.8]]
    one, other = (np.array(end) * (2.0 if relation is not BY_ONE else 0.5) for end in ends)
    Q, Q_other = (image(table_of({"a": [x[0]], "b": [x[1]]}), geometry).expose()[0] for x in (one, other))
    mechanism = box.mechanism(2 * n, 2)  # the same noise on every row
    found = audited_epsilon(mechanism, Q, Q_other, delta, n)
    assert seen < found <= epsilon
    assert audited_epsilon(mechanism, Q, Q_other, delta, n, share=share) > epsilon
