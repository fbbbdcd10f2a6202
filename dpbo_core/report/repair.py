"""What one released histogram of two classes can mend: the model's probabilities and its threshold, at no cost.

| symbol | name here | meaning | shape |
|---|---|---|---|
| z_i | `BinnedLogOdds.values` | PUBLIC out-of-fold log-odds of the model | (n,) |
| p_b(a, b) | `shares` | mean over the public records of bin b of the logistic function of a·z + b | (B,) |
| P̂, N̂ | `cells` | [negatives, positives] of each bin as they were released, all groups together | (2, B) |
| v | `variance` | of the noise in each of them | scalar |
| ω_b | — | n_b p_b(1 − p_b)/(n_b p_b(1 − p_b) + v·(p_b² + (1 − p_b)²)), at (1, 0) | (B,) |
| U | `score` | Σ ω_b (P̂_b − p_b n̂_b)·∇p_b/(p_b(1 − p_b)), at (1, 0) | (2,) |
| J | `information` | Σ ω_b n_b ∇p_b∇p_bᵀ/(p_b(1 − p_b)), at (1, 0) | (2, 2) |

*Recalibration.* ω makes J the covariance of U, sampling and noise together, where the model is right: so UᵀJ⁻¹U is
χ² of two degrees, and below its 99% quantile the probabilities are left as they are. Else (a, b) is the largest
ω-weighted likelihood of the cells (projected on the simplex of total m), a normal penalty of (a·s, b) centred at
(s, 0) and a ≥ LEAST_SLOPE; s is the deviation of z, at most 1: a model whose log-odds lie within hundredths has as
much freedom in them as another. Ranks, and so ROC and AUC, stay.

*Threshold.* At a stated cost the cheapest edge. To keep a recall r the linear statistic
P̂(above edge j) − r·P̂ of the RAW cells against the 90% quantile of its own noise, from the lowest edge upwards, and
the last edge before the first that fails: the recall of THESE records is at least r in 90% of draws, whatever the
cells, since the first edge below r must pass its own test (MATH §7.2 (4)). The largest edge that passes is not it.

All of it reads the release and public records, and nothing else. The repaired model stands behind
`dpbo_served_model.Repaired`, which loads without dpbo.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.models.final_model.dpbo_served_model import PROBABILITY_FLOOR, Linear, Repaired
from dpbo_core.models.final_model.storage import linear_fields
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.report.binary import Binary, at_edges
from dpbo_core.report.binary_bins import from_above
from dpbo_core.report.evaluated_model import EvaluatedModel
from dpbo_core.report.noised_table import SEED, NoisedTable, report, simulated_noise
from dpbo_core.report.report_kind import LEVEL, PublicRecords, Reals
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.sections import threshold_goal

MIN_SLOPE = 0.05
PRIOR_DEVIATIONS = np.array([0.5, 1.0])  # of (a·s, b) around (s, 0), as expected of a shift
NOISE_THRESHOLD = -2.0 * math.log(0.01)  # the 99% quantile of χ² with two degrees of freedom
N_SIMULATIONS = 20_000  # simulated tables of noise, for its quantile
NO_PRICE_NOTE = "no further price: everything here follows from the report that was released, and public records"
OPTIMISM_WARNING = (
    "the repaired model's log-loss, calibration error and counts at the threshold are of the cells that it was "
    "fitted to, and optimistic; ROC and AUC are the model's own"
)
RECALL_NOTE = "recall is kept for these records in 90% of noise draws; for others the sampling interval is added"


@dataclass(frozen=True)
class Repair:
    """A recalibration and a threshold, with the report before and after."""

    slope: float  # a; 1 where the probabilities are left
    intercept: float  # b; 0 if they are left
    threshold: float  # in the model's own decision values; the model's own where none is stated or none can keep it
    # the same as a probability of the repaired model; None of a model without probabilities
    probability: float | None
    why: tuple[str, ...]  # what was done, and what was left as it is
    before: Mapping[str, Any]  # metrics, calibration and confusion at the threshold, of the model as it was
    after: Mapping[str, Any]  # the same of the repaired one

    @property
    def terms(self) -> dict[str, float]:
        """The slope, intercept and threshold of the repair, by name."""
        return {"slope": self.slope, "intercept": self.intercept, "threshold": self.threshold}

    def is_unchanged(self, table: NoisedTable) -> bool:
        """Return whether the repair leaves the model and its threshold as they are."""
        own = getattr(table.kind, "threshold", self.threshold)
        return self.terms == {"slope": 1.0, "intercept": 0.0, "threshold": own}

    def to_json(self) -> dict[str, Any]:
        """Return the repair as plain JSON, with sentences on its optimism and its price."""
        return {**vars(self), "why": list(self.why), "optimism": OPTIMISM_WARNING, "price": NO_PRICE_NOTE}


@dataclass(frozen=True, eq=False)
class BinnedLogOdds:
    """PUBLIC log-odds (n,), the bin of each (n,), and how many bins there are."""

    values: Reals
    bins: NDArray[np.intp]
    size: int

    @classmethod
    def of(cls, public: PublicRecords, edges: tuple[float, ...]) -> "BinnedLogOdds | None":
        """Return the public records' log-odds by bin; None for a model without probabilities."""
        if public.verb != "predict_proba" and not public.logistic:
            return None
        bins = np.searchsorted(np.array(edges), public.outcome)
        return cls(log_odds(public.outcome, public), bins, len(edges) + 1)

    def shares(self, slope: float, intercept: float) -> tuple[Reals, Reals]:
        """Return the recalibrated share p of positives, (B,), and its gradient by slope and intercept, (2, B)."""
        p = 0.5 * (1.0 + np.tanh(0.5 * (slope * self.values + intercept)))
        records = np.maximum(self._binned(np.ones(len(p))), 1.0)
        empty = np.where(self._binned(np.ones(len(p))) > 0.0, 0.0, 0.5)
        turned = p * (1.0 - p)
        gradient = np.stack([self._binned(turned * self.values), self._binned(turned)]) / records
        return np.clip(self._binned(p) / records + empty, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR), gradient

    def _binned(self, weights: Reals) -> Reals:
        return np.bincount(self.bins, weights=weights, minlength=self.size).astype(np.float64)


def log_odds(outcome: Reals, public: PublicRecords) -> Reals:
    """Log-odds from a model's decision values or probabilities; a logistic model's are its decision values."""
    if public.logistic:
        return outcome
    p = np.clip(outcome, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)
    return np.asarray(np.log(p) - np.log1p(-p))


def repair(table: NoisedTable, public: PublicRecords, threshold: str | None) -> Repair:
    """Return the repair of a two-class model by its noisy table; `threshold`: "recall=0.9", or None for its own."""
    kind = table.kind
    if not isinstance(kind, Binary):
        raise StudyInvalid(
            f"a report of {kind.title} has nothing to repair",
            cause="a recalibration and a threshold are of two classes",
            remedy="leave repair out; make one class against the rest the target",
        )
    before = report(table)
    cells = table.split(table.counts).sum(axis=0)
    on_simplex = projected(table.counts, table.n_records)
    likely = table.split(on_simplex).sum(axis=0)
    variance = 2.0 * table.scale**2 * max(1, len(table.groups))
    binned, slope, intercept, why = BinnedLogOdds.of(public, kind.edges), 1.0, 0.0, []
    if binned is None:
        why.append("the model gives no probabilities, and none were made")
    else:
        slope, intercept, distance = recalibration(cells, likely, variance, binned)
        why.append(
            "the probabilities are left as they are: the best fit is within its noise of them"
            if (slope, intercept) == (1.0, 0.0)
            else f"recalibrated: χ² = {distance:.3g}, where noise alone stays below {NOISE_THRESHOLD:.3g}"
        )
    edge = kind.threshold
    if threshold is not None:
        some = before["metrics"]["recall"]["value"] is not None  # without positives every edge keeps all of them
        edge, sentence = _edge(table, kind, likely, threshold, positives=some)
        why.append(sentence)
    predicted = kind.predicted
    if binned is not None and predicted is not None:
        mended = binned.shares(slope, intercept)[0].tolist()
        predicted = tuple(None if old is None else new for old, new in zip(predicted, mended, strict=True))
    after = report(replace(table, kind=replace(kind, predicted=predicted, threshold=edge)))
    at_edge = slope * float(log_odds(np.array(edge), public)) + intercept
    probability = None if binned is None else 0.5 * (1.0 + math.tanh(0.5 * at_edge))
    return Repair(slope, intercept, edge, probability, tuple(why), _compared(before), _compared(after))


def recalibration(
    cells: Reals, likely: Reals, variance: float, binned: BinnedLogOdds
) -> tuple[float, float, float]:
    """Return slope and intercept of Platt's recalibration of log-odds, (1, 0) if within the noise, and its χ².

    `cells` are (2, B) as released, `likely` the nearest counts that are not negative and have the same sum.
    """
    from scipy.optimize import minimize

    p, gradient = binned.shares(1.0, 0.0)
    records, binomial = likely.sum(axis=0), p * (1.0 - p)
    weights = (
        records * binomial / np.maximum(records * binomial + variance * (p**2 + (1.0 - p) ** 2), PROBABILITY_FLOOR)
    )
    score = gradient @ (weights * (cells[1] - p * cells.sum(axis=0)) / binomial)
    information = (gradient * (weights * records / binomial)) @ gradient.T
    distance = float(score @ np.linalg.pinv(information) @ score)
    if distance <= NOISE_THRESHOLD:
        return 1.0, 0.0, distance

    s = min(1.0, float(np.std(binned.values))) or 1.0

    def unlikely(at: Reals) -> tuple[float, Reals]:
        # the negative penalised log-likelihood at (a·s, b), and its gradient
        q, slopes = binned.shares(at[0] / s, at[1])
        off = (at - [s, 0.0]) / PRIOR_DEVIATIONS**2
        likelihood = weights @ (likely[1] * np.log(q) + likely[0] * np.log1p(-q))
        towards = slopes @ (weights * (likely[1] / q - likely[0] / (1.0 - q))) / [s, 1.0]
        return float(0.5 * off @ (off * PRIOR_DEVIATIONS**2) - likelihood), off - towards

    bounds = [(MIN_SLOPE * s, None), (None, None)]
    fit = minimize(unlikely, [s, 0.0], jac=True, method="L-BFGS-B", bounds=bounds)
    return float(fit.x[0]) / s, float(fit.x[1]), distance


def recall_edge(cells: Reals, scale: float, recall: float, n_groups: int = 1, weight: int = 1) -> int | None:
    """Return the index of the highest bin edge that keeps this recall in 90% of noise draws; None if no edge does.

    `cells` are (2, B) as released, each the sum of `n_groups` with noise of this scale, in steps of 1/`weight`.
    """
    rng, bins = np.random.default_rng(SEED), cells.shape[1]
    noise = np.zeros((N_SIMULATIONS, bins))
    for _ in range(n_groups):
        noise += simulated_noise(rng, scale, noise.shape, weight)

    def statistic(positives: Reals) -> Reals:
        above = from_above(positives)  # each edge, less `recall` of all of them, (…, B − 1)
        return np.asarray(above[..., 1:] - recall * above[..., :1])

    fails = statistic(cells[1]) < np.quantile(statistic(noise), LEVEL, axis=0)
    first = int(np.argmax(fails)) if fails.any() else bins - 1
    return first - 1 if first else None


def projected(counts: Reals, total: float) -> Reals:
    """Return the nearest counts that are not negative and sum to `total`."""
    ordered = -np.sort(-counts)
    excess = (ordered.cumsum() - total) / np.arange(1, len(counts) + 1)
    return np.asarray(np.maximum(counts - excess[np.flatnonzero(ordered > excess)[-1]], 0.0))


def _edge(table: NoisedTable, kind: Binary, likely: Reals, threshold: str, *, positives: bool) -> tuple[float, str]:
    """Return the bin edge that meets a goal, "recall=…" or "cost=…", by the noisy table, and a sentence about it.

    It is the model's own threshold if no edge keeps the recall, or if noise alone may have made the `positives`.
    """
    what, amount = threshold_goal(threshold)
    if what == "cost":
        flagged = at_edges(*likely)
        missed = likely[1].sum() - flagged["true_positives"]
        at = int(np.argmin(amount * missed + flagged["false_positives"]))
        return kind.edges[at], f"the cheapest threshold where one missed costs {amount:g} false alarms"
    cells = table.split(table.counts).sum(axis=0)
    highest = recall_edge(cells, table.scale, amount, max(1, len(table.groups)), table.weight)
    if highest is None or not positives:
        return kind.threshold, f"the threshold is left: no edge keeps a recall of {amount:g} beyond the noise"
    return kind.edges[highest], f"the highest threshold that keeps a recall of {amount:g}; {RECALL_NOTE}"


def _compared(value: Mapping[str, Any]) -> dict[str, Any]:
    names = ("mean_log_loss", "calibration_error", "auc")
    return {
        "metrics": {name: value["metrics"][name] for name in names if name in value["metrics"]},
        "calibration": value["calibration"],
        "confusion": next(row for row in value["confusion"] if row["own"]),
    }


NO_LOSS = "none"


def repaired_model(evaluated: EvaluatedModel, repair: Repair, loss: str | None) -> FinalModel:
    """The evaluated model with the repair applied, fit to be saved; `loss` is a linear model's, else None."""
    fitted, model, public = evaluated.preprocessing, evaluated.model, evaluated.public
    how = {"verb": public.verb, "logistic": public.logistic}
    if isinstance(model, FittedEstimator):
        model = replace(model, alone=None, cells=None)
        return FinalModel(fitted, replace(model, estimator=Repaired(model.estimator, how | repair.terms)))
    if not isinstance(model, LinearModel):
        raise TypeError("only a model of two classes has a repair")
    ours = Linear(linear_fields(model, loss or NO_LOSS))
    return FinalModel(fitted, FittedEstimator(Repaired(ours, how | repair.terms), np.zeros(fitted.n_features)))
