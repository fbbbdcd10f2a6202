"""Checking a certificate: ε and δ composed again from the draws that a release lists, without any ledger.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Δ_i | `sensitivity` | most one unit moves the query of draw i, in score | scalar |
| s_i | `noise_scale` | Laplace b, Gaussian σ, or 2Δ/ε of a selection, in score | scalar |
| ε_i, ρ_i | `epsilon_units`, `rho_units` | what draw i is said to cost | integers of 10⁻¹² |
| ε, δ | `guarantee` | what the release guarantees for all of them together | scalars |

Two steps, both from printed numbers alone: the noise of each draw is worth at least the price it names, and the
prices compose to no more than the guarantee, by their sums or, as in the ledger, at the one Rényi order that the
guarantee fixes (`Filter`). A certificate proves what it says of the noise, not that the noise was
drawn: that is what the ledger is for. What a method's release must show, and what a mechanism's noise is worth,
they declare themselves and the caller passes on; a method or a mechanism that declares nothing is refused.
Source: as in `composition`; Laplace ε = Δ/b; Gaussian ρ = Δ²/2σ² (Canonne, Kamath, Steinke 2020, Theorem 14);
selections ε = 2Δ/s, with ρ = ε²/8 for the exponential mechanism and ε²/2 for permute-and-flip.
"""

import math
from dataclasses import dataclass
from typing import Any

from dpbo_core.errors import CertificateFalse, StudyInvalid
from dpbo_core.ledger.accounting.composition import price_of
from dpbo_core.privacy.certified import Declared
from dpbo_core.privacy.guarantee import OPERATING_SYSTEM, OTHER_TOOLS_NOISE
from dpbo_core.privacy.release import Release, Spend

# relative: the error of reading scales back from decimals, a thousand times the rounding of a plan
_SCALE_TOLERANCE = 1e-9
MAX_AMOUNT = 1e15  # of any amount: far beyond what anybody guarantees, far within what double precision adds up


@dataclass(frozen=True)
class Recomputed:
    """The guarantee that a certificate proves, composed again."""

    epsilon: float  # ε of everything released, composed again from the draws; at most the guaranteed one
    delta: float  # the δ it holds at
    draws: int  # how many draws were composed
    # mechanisms whose noise has no formula here, so that their price was taken as printed
    by_price: tuple[str, ...]
    # what a theorem says of the released score at the printed noise, as text; "" for nothing
    score_bound: str = ""
    figures: str = ""  # whether a report's figures were computed again from its table, as text; "" for no report


def read_certificate(document: Any, declared: Declared) -> Release:
    """Return the release in a JSON document; StudyInvalid if it is malformed or `declared` lacks its method."""
    unknown = False
    try:
        release = Release.from_json(document)
        unknown = release.method not in declared.methods
        sound = not unknown and release.guarantee.delta < 1.0 and _in_range(release)
        if sound:
            rules = declared.methods[release.method](release)
            sound = bool(release.spends) and rules.sensitivity >= 0.0
    except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError):
        sound = False
    if unknown:
        raise StudyInvalid(
            "the release is of a method that this version cannot check",
            cause="another version of dpbo wrote it, or it was edited",
            remedy="check it with the version that wrote it",
        )
    if not sound:
        raise StudyInvalid(
            "the file is no release of dpbo",
            cause="another JSON file, or a release.json that was cut or edited",
            remedy="take release.json from the run's artifacts in MLflow",
        )
    return release


def _in_range(release: Release) -> bool:
    """Return whether each amount of the release is infinite, or small enough for double precision to add up."""
    amounts = [release.guarantee.epsilon, release.guarantee.delta]
    for spend in release.spends:
        amounts += [spend.epsilon, spend.delta, spend.rho, spend.sensitivity, spend.noise_scale]
    return all(amount <= MAX_AMOUNT or amount == math.inf for amount in amounts)


def recompute(release: Release, declared: Declared) -> Recomputed:
    """Return the release's ε and δ, recomputed from the noise draws that it lists; refused if it says less."""
    guarantee = release.guarantee
    private = release.noise in (OPERATING_SYSTEM, OTHER_TOOLS_NOISE) and not guarantee.evidence.refuted
    if not private or guarantee.epsilon == math.inf:
        raise CertificateFalse(
            "this release guarantees nothing (ε = ∞)",
            cause="its noise was injected, or its evidence is refuted; such releases are for public data",
            remedy="treat its numbers as the raw ones",
        )
    rules = declared.methods[release.method](release)
    if not rules.fits(release):
        what = "the release does not list the draws that its method makes, or guarantees what they cannot keep"
        raise _edited_certificate(what)
    if rules.agrees is not None and not rules.agrees(release):
        what = "the table of the report is not that of its draw, or its figures are not the table's"
        raise _edited_certificate(what)
    for spend in release.spends:
        _check_price(spend, declared)
        if not spend.sensitivity >= rules.sensitivity * (1.0 - _SCALE_TOLERANCE):
            raise _underpriced_draw(spend)
    epsilon, delta = price_of(release.spends, guarantee.epsilon, guarantee.delta)
    if not (epsilon <= guarantee.epsilon * (1.0 + 1e-12) and delta <= guarantee.delta * (1.0 + 1e-12)):
        raise _edited_certificate(
            f"the draws cost (ε, δ) = ({epsilon:.6g}, {delta:.6g}), and the release guarantees "
            f"({guarantee.epsilon:g}, {guarantee.delta:g})"
        )
    by_price = {spend.mechanism for spend in release.spends if declared.mechanisms[spend.mechanism].by_price}
    return Recomputed(
        epsilon, delta, len(release.spends), tuple(sorted(by_price)), rules.score_bound, rules.figures
    )


def _check_price(spend: Spend, declared: Declared) -> None:
    worth = declared.mechanisms.get(spend.mechanism)
    scaled = spend.sensitivity > 0.0 and spend.noise_scale * MAX_AMOUNT > spend.sensitivity  # the ratio is squared
    if worth is None or not spend.rho_units > 0 or not (worth.by_price or scaled):
        raise _underpriced_draw(spend)
    epsilon, rho = worth.of(spend)
    if epsilon is None:
        cheap = spend.epsilon_units is not None  # a Gaussian has no pure ε
    else:
        cheap = epsilon > spend.epsilon * (1.0 + _SCALE_TOLERANCE)
    if cheap or rho > spend.rho * (1.0 + _SCALE_TOLERANCE):
        raise _underpriced_draw(spend)


def _underpriced_draw(spend: Spend) -> CertificateFalse:
    return _edited_certificate(f"the draw {spend.what!r} names a price below what its noise is worth")


def _edited_certificate(what: str) -> CertificateFalse:
    return CertificateFalse(
        what,
        cause="the certificate was edited, or another version or build of dpbo wrote it",
        remedy="ask whoever gave it to you for the release in the ledger",
    )
