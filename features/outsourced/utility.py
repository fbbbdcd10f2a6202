"""What a published table will be good for, from public numbers, before anything is published or read.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n, d, r | `n_rows`, `n_columns`, `dim` | rows, columns, columns published | scalars |
| τ | `noise_scale` | noise of the sound transform in every entry | scalar |
| D, l | `diameter`, `lengthscale` | the table's diameter and the prior's lengthscale, in its units | scalars |
| σ_min | `singular_value` | a PUBLIC guess of the centred table's smallest singular value, or None | scalar |
| ω, ν | `floor`, `distortion` | of the published transform (Algorithm 1, Lemma 1) | scalars |
| ε_ucb, T, L | `approximation`, `n_steps`, `answer_bound` | of Theorem 3 | scalars |

Two transforms. Of the paper's, which protects nobody, everything that the paper says: r, ω, ν, the distances and
the regret. Of the sound one: its noise, and from what distance on two rows are told apart by their images. Nothing
of a table is read: its σ_min and its diameter are facts about the people in it, and are stated or left out.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from dpbo.features.outsourced.box import Outsourced
from dpbo_core.errors import StudyInvalid
from dpbo_core.theorems import kharkovskii_2020, srinivas_2010

DIMENSIONS_TRIED = (3, 6, 10, 15, 20, 30, 50)  # columns, beside those that a rule names: of the paper's tables
MAX_DOMINANCE_ROWS = 2048  # beyond which dominance is not looked at: K is (T, T)


@dataclass(frozen=True)
class Expected:
    """Public guesses about the table and its function, in the table's own units and the answers'."""

    diameter: float | None = None  # D; twice the norm bound where None
    singular_value: float | None = None  # σ_min of the centred table, or None
    lengthscale: float | None = None  # l of the squared exponential; a tenth of D where None
    signal_variance: float = 1.0  # σ_y²
    noise_variance: float = 0.01  # σ_n² of an answer
    answer_bound: float | None = None  # L; three deviations where None
    n_steps: int = 50  # T
    approximation: float = 0.1  # ε_ucb that is wanted
    delta_ucb: float = 0.05  # failure probability of Theorem 3
    information_gain: float | None = None  # γ_T; T/2·log(1 + σ_y²/σ_n²), which bounds it on any table, where None

    def __post_init__(self) -> None:
        positive = (self.signal_variance, self.noise_variance, self.approximation)
        optional = (self.diameter, self.lengthscale, self.answer_bound)
        numbers = [*positive, *(one for one in optional if one is not None)]
        least = [one for one in (self.singular_value, self.information_gain) if one is not None]
        if not (
            all(0.0 < one < math.inf for one in numbers)
            and all(0.0 <= one < math.inf for one in least)
            and self.n_steps >= 2
            and 0.0 < self.delta_ucb < 1.0
        ):
            raise StudyInvalid(
                "these numbers describe no table",
                cause="lengths and variances are positive, steps 2 or more, and a probability is in (0, 1)",
                remedy="correct them, or leave out what is not known",
            )


@dataclass(frozen=True)
class ByDim:
    """What the paper says of its own transform with r columns."""

    dim: int  # r
    floor: float  # ω
    distortion: float  # ν of Lemma 1; ∞ where it says nothing of so few columns
    distances: tuple[float, float]  # least and most ‖z − z′‖²/‖x − x′‖² (Theorem 2), where Lemma 1 speaks
    approximation: float  # ε_ucb, or what takes its place (Remark 2); ∞ where neither speaks
    regret: float  # bound on the simple regret (Theorem 3) in units of the answers; ∞ where it says nothing
    raised: bool | None  # whether σ_min < ω, so that singular values are raised; None if σ_min is not known


@dataclass(frozen=True)
class Utility:
    """What a publication will be good for, from public numbers."""

    relation: str  # which tables are neighbours
    useless: bool  # whether even the farthest rows are nearer than their noise
    noise_scale: float  # τ of the sound transform in every entry, in the table's units
    # distance of two rows at which their images are as far apart as noise alone makes them, τ√(2d)
    told_apart: float
    diameter: float  # D, given or 2B
    sound_dim: int  # the r to choose for it: all columns, since image and noise shrink alike
    wanted_distortion: float  # ν that Theorem 3 asks for
    wanted_dim: int | None  # r that Lemma 1 asks for at that ν
    largest_dim: int | None  # the largest r with ω ≤ σ_min; None if σ_min is not known
    # whether T rows of the table can be diagonally dominant (Definition 3), as Theorem 3 assumes
    dominant: bool | None
    by_dim: tuple[ByDim, ...] = field(repr=False)  # the paper's transform, by r


def utility(box: Outsourced, n_rows: int, n_columns: int, expected: Expected) -> Utility:
    """Return how useful a table of n ≥ 2 rows and d columns would be, from public guesses, for both transforms."""
    if n_rows < 2 or n_columns < 1:
        raise StudyInvalid("there is no table of that size", remedy="give 2 rows or more, and a column or more")
    diameter = _diameter(box, expected)
    spend = box.plan(n_rows, n_columns).spends[0]
    scaled = diameter / (0.1 * diameter if expected.lengthscale is None else expected.lengthscale)
    bound = expected.answer_bound
    if bound is None:
        bound = 3.0 * math.sqrt(expected.signal_variance + expected.noise_variance)
    required = kharkovskii_2020.theorem_3_distortion(
        approximation=expected.approximation, scaled_diameter=scaled, answer_bound=bound
    )
    mu, largest = 0.5 * expected.delta_ucb, None
    wanted_dim = kharkovskii_2020.lemma_1_projection_dim(
        n_rows=n_rows, failure_probability=mu, distortion=min(required, math.nextafter(0.5, 0.0))
    )
    if expected.singular_value is not None:
        largest = kharkovskii_2020.largest_projection_dim(
            epsilon=box.epsilon, delta=box.delta, singular_value=expected.singular_value
        )
    dims = {
        *DIMENSIONS_TRIED,
        n_columns,
        *([] if not largest else [largest]),
        *([] if box.dim is None else [box.dim]),
        wanted_dim,
    }
    told_apart = spend.noise_scale * math.sqrt(2.0 * n_columns)
    return Utility(
        relation=box.neighbours.relation.value,
        useless=told_apart >= diameter,
        noise_scale=spend.noise_scale,
        told_apart=told_apart,
        diameter=diameter,
        sound_dim=n_columns,
        wanted_distortion=required,
        wanted_dim=wanted_dim,
        largest_dim=largest,
        dominant=_can_dominate(expected.n_steps, n_columns, scaled),
        by_dim=tuple(_by_dim(box, n_rows, r, expected, scaled, bound) for r in sorted(dims)),
    )


def _by_dim(box: Outsourced, n_rows: int, r: int, expected: Expected, scaled: float, bound: float) -> ByDim:
    """Return what the paper says at r columns; `scaled` is the diameter in lengthscales, `bound` L on answers."""
    floor = kharkovskii_2020.singular_value_floor(epsilon=box.epsilon, delta=box.delta, projection_dim=r)
    mu = 0.5 * expected.delta_ucb
    nu = kharkovskii_2020.lemma_1_distortion(n_rows=n_rows, failure_probability=mu, projection_dim=r)
    sigma = floor if expected.singular_value is None else expected.singular_value
    raised = None if expected.singular_value is None else sigma < floor
    if nu == math.inf:
        return ByDim(r, floor, nu, (0.0, math.inf), math.inf, math.inf, raised)
    distances = kharkovskii_2020.theorem_2_distance_bounds(distortion=nu, singular_value=sigma, floor=floor)
    approximation = kharkovskii_2020.remark_2_approximation(
        distortion=nu, singular_value=sigma, floor=floor, scaled_diameter=scaled, answer_bound=bound
    )
    if nu > 2.0 / scaled**2:  # what the theorem asks of ν beside ε_ucb
        return ByDim(r, floor, nu, distances, math.inf, math.inf, raised)
    signal, noise, T = expected.signal_variance, expected.noise_variance, expected.n_steps
    gain = 0.5 * T * math.log1p(signal / noise) if expected.information_gain is None else expected.information_gain
    regret = kharkovskii_2020.theorem_3_regret_bound(
        approximation=approximation,
        beta=srinivas_2010.beta(n_candidates=n_rows, step=T, delta=mu),
        information_gain=gain,
        noise_variance=noise,
        n_steps=T,  # the factors in C₁ and C₂ that the paper leaves open are 1
        constants=(math.sqrt(signal * (signal + noise)) * (signal / noise + 1.0), signal / noise * bound),
    )
    return ByDim(r, floor, nu, distances, approximation, regret, raised)


def _can_dominate(T: int, d: int, scaled: float) -> bool | None:
    """Return whether T distinct rows of d numbers, at most `scaled` lengthscales apart, can have a diagonally
    dominant covariance, as Theorem 3 assumes; None if T is huge.

    T balls of half the least distance s are disjoint, and lie within D + s/2 of one of the rows: T(s/2)^d ≤
    (D + s/2)^d, so two rows are within s = 2D/(T^{1/d} − 1), and their covariance alone may be too large.
    """
    if T > MAX_DOMINANCE_ROWS:
        return None
    nearest = 2.0 * scaled / (T ** (1.0 / d) - 1.0)
    gram = np.eye(T)
    gram[0, 1] = gram[1, 0] = math.exp(-0.5 * min(nearest, scaled) ** 2)
    return kharkovskii_2020.definition_3_diagonally_dominant(gram)


def _diameter(box: Outsourced, expected: Expected) -> float:
    if expected.diameter is not None:
        return expected.diameter
    if box.norm_bound is None:
        raise StudyInvalid(
            "how far apart two rows may lie is not known",
            cause="neither --diameter nor --norm-bound was given, and no table is read for it",
            remedy="give --diameter from public knowledge, in the table's units",
        )
    return 2.0 * box.norm_bound
