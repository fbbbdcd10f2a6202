"""The price of a watch and how it errs, before anything is spent."""

from dataclasses import dataclass
from pathlib import Path

from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.evaluation.watch.measure import MeanMeasure
from dpbo_core.evaluation.watch.power import Noise, Power, power, smallest_drop
from dpbo_core.evaluation.watch.terms import Terms
from dpbo_core.evaluation.watch.watching import wanted_of, watching
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.spec import StudySpec, WatchSection


@dataclass(frozen=True)
class WatchPlan:
    """The price of a watch and how it errs, before anything is spent.

    Attributes:
        price: of all looks.
        terms: on which it is, or would be, opened.
        threshold: θ in units of the score.
        noise: what is added to a fall, in the same.
        spread: standard deviation of a record's score that was reckoned with; None where pairs are counted.
        power: how often it errs.
        smallest: the least fall that it would find fairly at this price.
        open: whether it is open already.
    """

    price: PrivacyPlan
    terms: Terms
    threshold: float
    noise: Noise
    spread: float | None
    power: Power
    smallest: float
    open: bool

    @property
    def records(self) -> int:
        """m, the fewest records of a table; or persons."""
        return self.terms.least_records

    @property
    def sampling(self) -> float:
        """Standard deviation of the score of a table of m."""
        return self.noise.of_sampling


def plan_watch(
    study: StudySpec, *, ledger: PrivacyLedger, folder: str | Path = ".", wanted: WatchSection | None = None
) -> WatchPlan:
    """The price of a watch and how it errs, from public facts alone. Charges nothing.

    Args, Raises: as `look_once`; a study that released nothing yet is planned with the widest scores there are.
    """
    asked = watching(study, ledger, folder, wanted_of(study, wanted), planned=True).with_threshold()
    terms, measure, spread = asked.terms, asked.measure, asked.spread
    noise = terms.noise(measure, terms.least_records, spread)
    theta = (terms.threshold or 0) * measure.unit
    return WatchPlan(
        price=asked.price,
        terms=terms,
        threshold=theta,
        noise=noise,
        spread=spread if isinstance(measure, MeanMeasure) else None,
        power=power(terms.drop, noise, theta),
        smallest=smallest_drop(noise),
        open=asked.fixed,
    )
