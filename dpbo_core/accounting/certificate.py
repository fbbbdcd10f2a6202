"""What a release's own page proves: its ε and δ again, from the draws it lists, without any ledger.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Δ_i | `sensitivity` | most one unit moves the query of draw i, in score | scalar |
| s_i | `noise_scale` | Laplace b, Gaussian σ, or 2Δ/ε of a selection, in score | scalar |
| ε_i, ρ_i | `epsilon_units`, `rho_units` | what draw i is said to cost | integers of 10⁻¹² |
| ε, δ | `guarantee` | what the release promises for all of them together | scalars |

Two steps, both from printed numbers alone: the noise of each draw is worth at least the price it names, and the
prices compose to no more than the promise. A certificate proves what it says of the noise, not that the noise was
drawn: that is what the ledger is for.
Source: as in `composition`; Laplace ε = Δ/b; Gaussian ρ = Δ²/2σ² (Canonne, Kamath, Steinke 2020, Theorem 14);
selections ε = 2Δ/s, with ρ = ε²/8 for the exponential mechanism and ε²/2 for permute-and-flip.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpbo_core.accounting.composition import compose
from dpbo_core.errors import CertificateFalse, StudyInvalid
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.plan import Spend
from dpbo_core.privacy.release import Release

_SLACK = 1e-9  # relative: the error of reading scales back from decimals, a thousand times the rounding of a plan

LARGEST = 1e15  # of any amount: far beyond what anybody promises, far within what double precision adds up

# (ε, ρ) that a draw's printed noise is worth; no pure ε for a Gaussian.
_WORTH: Mapping[str, Callable[[float], tuple[float | None, float]]] = {
    "discrete Laplace": lambda ratio: (ratio, ratio**2 / 2.0),
    "discrete Gaussian": lambda ratio: (None, ratio**2 / 2.0),
    "exponential mechanism": lambda ratio: (2.0 * ratio, (2.0 * ratio) ** 2 / 8.0),
    "permute-and-flip": lambda ratio: (2.0 * ratio, (2.0 * ratio) ** 2 / 2.0),
}
# Mechanisms whose noise has no formula here.
BY_PRICE = ("best of a random number of private trials", "discrete Gaussian rows")
# Methods whose every draw is of scores that each record moves by its own share.
ONE_RECORD_MOVES = ("private_grid", "private_trajectory")


@dataclass(frozen=True)
class Recomputed:
    """What a certificate is worth.

    Attributes:
        epsilon: ε of everything released, composed again from the draws; at most the promised one.
        delta: the δ it holds at.
        draws: how many draws were composed.
        by_price: mechanisms whose noise has no formula here, so that their price was taken as printed.
    """

    epsilon: float
    delta: float
    draws: int
    by_price: tuple[str, ...]


def read_certificate(document: Any) -> Release:
    """The release in a JSON document.

    Raises:
        StudyInvalid: it is no release.
    """
    try:
        _check_types(document)
        release = Release.from_json(document)
        sound = release.guarantee.delta < 1.0 and len(release.spends) >= _draws_shown(release)
        sound = sound and _least_sensitivity(release) >= 0.0
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError):
        sound = False
    if not sound:
        raise StudyInvalid(
            "the file is no release of dpbo",
            cause="another JSON file, or a release.json that was cut or edited",
            remedy="take release.json from the run's artifacts in MLflow",
        )
    return release


def _check_types(document: Any) -> None:
    """Texts are texts and amounts are numbers from 0: a negative price would pay for another draw.

    Raises:
        TypeError, KeyError: it is otherwise.
    """
    promise, spends = document["guarantee"], document["spends"]
    texts = [document[key] for key in ("study", "edition", "method", "dataset", "noise")]
    texts += [promise["evidence_note"], *promise["assumptions"], promise.get("person") or ""]
    texts += [spend[key] for spend in spends for key in ("what", "mechanism")]
    amounts = [promise["delta"], 0 if promise["epsilon"] is None else promise["epsilon"]]
    for spend in spends:
        amounts += [spend[key] for key in ("delta", "rho", "sensitivity", "noise_scale")]
        amounts += [] if spend["epsilon"] is None else [spend["epsilon"]]
    if not (isinstance(spends, list) and isinstance(promise["assumptions"], list)):
        raise TypeError
    if not all(isinstance(text, str) for text in texts):
        raise TypeError
    if not all(type(amount) in (int, float) and 0 <= amount <= LARGEST for amount in amounts):
        raise TypeError


def recompute(release: Release) -> Recomputed:
    """ε and δ from the draws alone, checked against the promise.

    Raises:
        CertificateFalse: a draw is priced below its noise, or the prices add up to more than the promise.
    """
    promise = release.guarantee
    if release.noise != "operating_system" or promise.evidence.refuted or promise.epsilon == math.inf:
        raise CertificateFalse(
            "this release promises nothing (ε = ∞)",
            cause="its noise was injected, or its evidence is refuted; such releases are for public data",
            remedy="treat its numbers as the raw ones",
        )
    for spend in release.spends:
        _check_price(spend)
        if spend.sensitivity < _least_sensitivity(release) * (1.0 - _SLACK):
            raise _underpriced(spend)
    total = compose(release.spends)
    epsilon, delta = total.epsilon(max(0.0, promise.delta - from_units(total.delta_units)))
    if not (epsilon <= promise.epsilon * (1.0 + 1e-12) and delta <= promise.delta * (1.0 + 1e-12)):
        raise CertificateFalse(
            f"the draws cost (ε, δ) = ({epsilon:.6g}, {delta:.6g}), and the release promises "
            f"({promise.epsilon:g}, {promise.delta:g})",
            cause="the certificate was edited, or another version composed it",
            remedy="ask whoever gave it to you for the release in the ledger",
        )
    by_price = {spend.mechanism for spend in release.spends} & set(BY_PRICE)
    return Recomputed(epsilon, delta, len(release.spends), tuple(sorted(by_price)))


def _draws_shown(release: Release) -> int:
    """How many draws at least made what is shown: one a step of a trajectory, one for each other number."""
    value = release.value
    alone = sum(name in value for name in ("hyperparameters", "score"))
    drawn_together = release.method not in ("private_grid", "noisy_gp")
    return max(len(value.get("trajectory", ())), 1 if drawn_together else alone)


def _least_sensitivity(release: Release) -> float:
    """min(k, m)·G/m: what one unit's records can move a mean of m scores in [0, G] by; 0 where a theorem says less.

    Raises:
        KeyError, TypeError, ValueError, ArithmeticError: the facts do not say.
    """
    if release.method not in ONE_RECORD_MOVES:
        return 0.0
    G, k, m = (float(release.facts[key]) for key in ("score_range", "max_records_per_person", "n_validation"))
    return min(max(k, 1.0), m) * G / m


def _check_price(spend: Spend) -> None:
    """The printed noise costs no more than the printed price."""
    if spend.mechanism in BY_PRICE and spend.rho_units > 0:
        return
    if spend.mechanism not in _WORTH:
        raise _underpriced(spend)
    if not (spend.sensitivity > 0.0 and spend.noise_scale * LARGEST > spend.sensitivity):  # the ratio is squared
        raise _underpriced(spend)
    epsilon, rho = _WORTH[spend.mechanism](spend.sensitivity / spend.noise_scale)
    cheap = rho > spend.rho * (1.0 + _SLACK)
    if epsilon is None:
        cheap = cheap or spend.epsilon_units is not None  # a Gaussian has no pure ε
    else:
        cheap = cheap or epsilon > spend.epsilon * (1.0 + _SLACK)
    if cheap:
        raise _underpriced(spend)


def _underpriced(spend: Spend) -> CertificateFalse:
    return CertificateFalse(
        f"the draw {spend.what!r} names a price below what its noise is worth",
        cause="the certificate was edited, or another version wrote it",
        remedy="ask whoever gave it to you for the release in the ledger",
    )
