"""The box `outsourced`: what the curator chooses, and its price. No data is needed for either.

| symbol | name here | meaning | shape |
|---|---|---|---|
| ε, δ | `epsilon`, `delta` | the guarantee of the published table Z | scalars > 0 |
| ρ_Z | — | the largest zCDP that (ε, δ) holds | scalar |
| B | `norm_bound` | rows are clipped to this distance from the centre | scalar > 0 |
| r | `dim` | columns published; None for d | scalar ≥ 1 |
| y_i | `answer` | the answer of row i, a function of that row alone | scalar |
| [a, b] | `low`, `high` | public range that private answers are clipped to | two scalars |
| ρ_y | — | the largest zCDP that the answers' (ε, δ) holds, paid once for all rows | scalar |
| σ_y | `PrivateAnswers.mechanism.scale` | (b − a)/√(2ρ_y), in grid steps of (b − a)/2²⁴ | scalar |

Neighbours differ in one row, so in one row of Z and one answer: the run costs ρ_Z + ρ_y however the modeller
chooses, as long as no row is noised twice.

It is no method of a study: it has two parties, its candidates are the sensitive records themselves, and it takes as
many steps as the modeller likes. So its plan is of sizes, not of a problem, and it is named in `methods.EXCHANGES`.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from dpbo.features.outsourced.geometry import REFUTED_EVIDENCE, AnyRow, Geometry, NearRow, Neighbours
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.composition import largest_rho
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.gaussian_rows import GaussianRows
from dpbo_core.mechanisms.random_projection import RandomProjection
from dpbo_core.privacy.amounts import from_units, spent_units
from dpbo_core.privacy.certified import CertificateRules
from dpbo_core.privacy.guarantee import Evidence, NeighboringRelation, PrivacyGuarantee, PrivacyUnit, Standing
from dpbo_core.privacy.release import PrivacyPlan, Release, Spend
from dpbo_core.theorems.kharkovskii_2020 import singular_value_floor

TABLE_DRAW = "published table"
EVIDENCE = Evidence(
    Standing.STANDARD,
    "discrete Gaussian on every entry of a public linear image of each row (Canonne, Kamath, Steinke 2020, Theorem "
    "14); what the modeller does with it is post-processing",
)
GRID_STEPS = 2**24  # grid steps between a and b
ANSWERS_DRAW = "one answer a row"
ANSWERS_EVIDENCE = Evidence(
    Standing.STANDARD,
    "discrete Gaussian on each row's own answer, drawn once (Canonne, Kamath, Steinke 2020); neighbours differ in "
    "one row, so all answers cost what one does",
)
BY_ONE, REPLACE = NeighboringRelation.ROW_MOVES_BY_ONE, NeighboringRelation.REPLACE_ONE


@dataclass(frozen=True)
class Outsourced:
    """The curator's part of PO-GP-UCB: how a table of candidates is published, and its price.

    Attributes:
        epsilon: ε of the table.
        delta: δ of the table.
        transform: "gaussian", which is private, or "published", the paper's, which is not.
        relation: which tables are neighbours: "row_moves_by_one", the paper's and the default, hides moves of one
            row by a distance of at most 1; "replace_one" hides the whole row, and needs far more noise.
        norm_bound: B; needed for replace_one, optional otherwise.
        dim: r; None for all columns.
        centre: c, public; the origin if empty.
    """

    wants: ClassVar[str] = "another party to search among your records"
    gives: ClassVar[str] = "an answered search over a noised table"
    needs: ClassVar[str] = "[two parties](docs/explanation/outsourcing.md)"
    delta_range: ClassVar[str] = "> 0"
    trainings: ClassVar[str] = "none"
    observable: ClassVar[str] = "the noised table, the answers, and to the curator which rows are asked about"
    command: ClassVar[str] = "`dpbo curate`, `dpbo model`"

    epsilon: float
    delta: float
    transform: Literal["gaussian", "published"] = "gaussian"
    relation: NeighboringRelation | None = None
    norm_bound: float | None = None
    dim: int | None = None
    centre: tuple[float, ...] = ()
    kind: Literal["outsourced"] = "outsourced"

    def __post_init__(self) -> None:
        published = self.transform == "published"
        if self.transform not in ("gaussian", "published"):
            raise StudyInvalid(f"transform {self.transform!r} is not known", remedy="use gaussian or published")
        if self.relation is None:
            object.__setattr__(self, "relation", BY_ONE)
        _check_guarantee(self.epsilon, self.delta)
        if self.relation not in (BY_ONE, REPLACE) or (published and self.relation is not BY_ONE):
            raise StudyInvalid(
                f"the {self.transform} transform has no guarantee under the relation {self.relation}",
                cause="rows are replaced or moved, never added; the paper's own relation is row_moves_by_one",
                remedy="choose --relation row_moves_by_one, or replace_one with the gaussian transform",
            )
        _ = self.neighbours
        if self.norm_bound is not None and not 1e-9 <= self.norm_bound <= 1e9:
            raise StudyInvalid(f"norm bound {self.norm_bound:g}", remedy="choose a length between 1e-9 and 1e9")
        if self.dim is not None and not 1 <= self.dim <= 10_000:
            raise StudyInvalid(f"{self.dim} columns cannot be published", remedy="choose --dim between 1 and 10000")
        if not all(math.isfinite(c) and abs(c) <= 1e6 for c in self.centre):
            raise StudyInvalid("the centre is not finite", remedy="give public numbers between -1e6 and 1e6")

    @property
    def neighbours(self) -> Neighbours:
        """Which tables count as neighbours, with the bound on their rows' lengths, which replace_one must have."""
        if self.relation is BY_ONE:
            return NearRow(self.norm_bound)
        if self.norm_bound is None:
            raise StudyInvalid(
                "under replace_one a row may become any other, so its length needs a bound",
                cause="--norm-bound was not given",
                remedy="give --norm-bound B from public knowledge; longer rows are clipped to it",
            )
        return AnyRow(self.norm_bound)

    def width(self, n_columns: int) -> int:
        """The number of columns published, r: `dim`, or all; by the gaussian transform never more than all."""
        requested = n_columns if self.dim is None else self.dim
        return requested if self.transform == "published" else min(requested, n_columns)

    def floor(self, n_columns: int) -> float:
        """Return the floor ω that the published transform raises singular values to."""
        return singular_value_floor(epsilon=self.epsilon, delta=self.delta, projection_dim=self.width(n_columns))

    def geometry(self, n_columns: int) -> Geometry:
        """The public facts (projection, bounds on rows, grid) of the gaussian transform of `n_columns` columns."""
        if self.centre and len(self.centre) != n_columns:
            raise StudyInvalid(f"the centre has {len(self.centre)} numbers and the rows {n_columns}")
        return Geometry(n_columns, self.width(n_columns), self.neighbours, self.centre)

    def mechanism(self, n_rows: int, n_columns: int) -> GaussianRows:
        """Return the Gaussian noise to add to the published rows, (n_rows, the width of the projection)."""
        geometry = self.geometry(n_columns)
        shape = (n_rows, geometry.width)
        return GaussianRows(geometry.sensitivity, _rho(self.epsilon, self.delta), geometry.step, shape)

    @staticmethod
    def certificate_rules(release: Release) -> CertificateRules:
        """What a certificate must state: one draw, of the table or of all answers about it, for candidate rows."""
        made = {TABLE_DRAW: (*GaussianRows.WORTH, *RandomProjection.WORTH)}
        if "publication" in release.value:
            made = {ANSWERS_DRAW: tuple(DiscreteGaussian.WORTH)}
        return CertificateRules(made, 0.0, (), (PrivacyUnit.CANDIDATE_ROW,), (BY_ONE, REPLACE))

    def spend(self, n_rows: int, n_columns: int) -> Spend:
        """Return the price of the one noise draw, which makes the published table."""
        if self.transform == "gaussian":
            return self.mechanism(n_rows, n_columns).spend(TABLE_DRAW)
        claimed = spent_units(self.epsilon)
        return Spend(
            what=TABLE_DRAW,
            mechanism=next(iter(RandomProjection.WORTH)),
            epsilon_units=claimed,
            delta_units=spent_units(self.delta),
            rho_units=spent_units(0.5 * from_units(claimed) ** 2),
            sensitivity=1.0,
            noise_scale=self.width(n_columns) ** -0.5,
        )

    def plan(self, n_rows: int, n_columns: int) -> PrivacyPlan:
        """The noise draw and guarantee of a publication, paid once for all rows; an empty table is refused."""
        if n_rows < 1 or n_columns < 1:
            raise StudyInvalid("the table has no rows", remedy="give a file with one row a candidate")
        published = self.transform == "published"
        guarantee = PrivacyGuarantee(
            epsilon=math.inf if published else self.epsilon,
            delta=self.delta,
            unit=PrivacyUnit.CANDIDATE_ROW,
            relation=self.neighbours.relation,
            assumptions=(),
            evidence=REFUTED_EVIDENCE if published else EVIDENCE,
        )
        return PrivacyPlan(guarantee, (self.spend(n_rows, n_columns),))


def _check_guarantee(epsilon: float, delta: float) -> None:
    if not (math.isfinite(epsilon) and epsilon > 0.0 and 0.0 < delta < 1.0):
        raise StudyInvalid(
            f"ε = {epsilon:g} and δ = {delta:g} are no guarantee of this exchange",
            cause="Gaussian noise needs ε > 0 and δ between 0 and 1",
            remedy="give --epsilon 1 --delta 1e-6, say",
        )


def _rho(epsilon: float, delta: float) -> int:
    """Return the largest zCDP price ρ whose guarantee is within (ε, δ), in 10⁻¹²; refused if that is 0."""
    rho = largest_rho(epsilon, delta)
    if rho < 1:
        raise StudyInvalid(
            f"ε = {epsilon:g} is too small", cause="the ledger counts in units of 1e-12", remedy="raise --epsilon"
        )
    return rho


@dataclass(frozen=True)
class PrivateAnswers:
    """The noise on answers: each is clipped to [low, high], at (epsilon, delta) for all of them together."""

    low: float
    high: float
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and 1e-12 <= self.high - self.low <= 1e12):
            raise StudyInvalid(
                f"private answers between {self.low:g} and {self.high:g}",
                cause="the range is empty or not finite",
                remedy="give --private-answers LOW HIGH from public knowledge, LOW below HIGH",
            )
        _check_guarantee(self.epsilon, self.delta)
        _rho(self.epsilon, self.delta)

    @property
    def mechanism(self) -> DiscreteGaussian:
        """The noise on one answer, in grid steps of (high − low)/2²⁴."""
        return DiscreteGaussian(GRID_STEPS, _rho(self.epsilon, self.delta), (self.high - self.low) / GRID_STEPS)

    def plan(self, table: PrivacyGuarantee) -> PrivacyPlan:
        """The price and guarantee of all answers together, for the unit and relation of the guarantee `table`."""
        guarantee = PrivacyGuarantee(self.epsilon, self.delta, table.unit, table.relation, (), ANSWERS_EVIDENCE)
        return PrivacyPlan(guarantee, (self.mechanism.spend(ANSWERS_DRAW),))

    def steps(self, answer: float) -> int:
        """The answer clipped to [low, high], in grid steps above low; what is not finite counts as the middle."""
        if not math.isfinite(answer):
            return GRID_STEPS // 2
        clipped = min(max(answer, self.low), self.high)
        return min(GRID_STEPS, max(0, round((clipped - self.low) / (self.high - self.low) * GRID_STEPS)))

    def value(self, drawn: int) -> float:
        """The answer in its own units that noised grid steps stand for; the noise may take it out of the range."""
        return self.low + drawn * self.mechanism.unit
