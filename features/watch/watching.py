"""Which model is watched, on which terms, at which price and how it errs: from public files and the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dpbo.features.watch.power import VERDICTS, Noise, Power, best_threshold, power, smallest_drop
from dpbo.features.watch.terms import (
    LOOKS_DRAW,
    THRESHOLD_NOISE,
    MeanMeasure,
    PairMeasure,
    Terms,
    asked_terms,
    check_terms,
    measure_of,
    watch_key,
)
from dpbo.features.watch.todays_table import check_watchable, counted_of, least_of, rows_in_pool, tables_of
from dpbo_core.data.addresses import parse_place
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods.contract import Scope, guarantee_of
from dpbo_core.methods.problem import Problem, Trainer
from dpbo_core.models.estimators import Model
from dpbo_core.models.integer_sums import GRID
from dpbo_core.privacy.guarantee import ROWS_IN_ONE_TABLE, Evidence, Standing
from dpbo_core.privacy.release import NO_SCORE, PrivacyPlan, Release
from dpbo_core.report.evaluated_model import no_model
from dpbo_core.report.request import digest_of_released, not_released
from dpbo_core.study import StudySpec, WatchSection
from dpbo_core.study.final_training import model_is_public
from dpbo_core.study.named_sources import place_source
from dpbo_core.study.public_half import PublicHalf
from dpbo_core.study.query import QueryContext, replay
from dpbo_core.study.run import Run

EVIDENCE = Evidence(
    Standing.STANDARD,
    "comparisons with one noised threshold up to the first above it (Dwork, Roth 2014, Algorithm 1; Lyu, Su, Li "
    "2017, Theorem 4)",
)

DAYS_PER_WEEK = 7  # days
CADENCE_DAYS = (1, DAYS_PER_WEEK, 30)  # tables, one a day: a day, a week, a month
REFERENCE_TOLERANCE = 1e-9  # of a reference that was put back from the metric's unit


@dataclass(frozen=True, eq=False, repr=False)
class Watching:
    """One watch as it is requested, before any model is trained."""

    spec: StudySpec
    public: PublicHalf
    key: QueryKey  # under which the ledger keeps the looks
    tuned: Release | None  # the study's release; None if it is only planned
    terms: Terms  # those that were fixed, or those asked for
    fixed: bool  # whether they were
    useless: str = ""  # why it would find nothing; "" where it would, or where it is open

    @property
    def measure(self) -> MeanMeasure | PairMeasure:
        """What a private check compares with the threshold: a mean of scores, or a count of pairs."""
        return measure_of(self.public.problem, self.terms.rows)

    @property
    def price(self) -> PrivacyPlan:
        """The watch's price: one pure ε, charged once, for all looks up to the first alarm."""
        problem = replace(self.public.problem, epsilon=self.terms.epsilon)
        apart = self.terms.rows < rows_in_pool(problem, self.terms.pool, ())
        assumptions = (ROWS_IN_ONE_TABLE.name,) if apart else ()
        guarantee = guarantee_of(problem, delta=0.0, evidence=EVIDENCE, scope=Scope.PAIRS, assumptions=assumptions)
        return PrivacyPlan(guarantee, (self.terms.mechanism(self.measure).spend(LOOKS_DRAW),))

    @property
    def spread(self) -> float:
        """A record's score's deviation, cross-validated publicly; half its range for pairs or before release."""
        problem = self.public.problem
        if self.tuned is None or isinstance(self.measure, PairMeasure):
            return problem.score_range / 2.0
        steps = _trainer_of(problem).public_steps(self.tuned.value["hyperparameters"], seed=problem.search.seed)
        return float(steps.std()) * problem.score_range / GRID

    def with_threshold(self) -> "Watching":
        """The watch with its threshold θ: the fixed one, else the best, with `useless` stated if that fails too."""
        if self.terms.threshold is not None:
            return self
        noise = self.terms.noise(self.measure, self.terms.least_records, self.spread)
        theta = int(best_threshold(self.terms.drop, noise) / self.measure.unit)
        terms = replace(self.terms, threshold=theta)
        useless = why_drowned(terms, noise, power(terms.drop, noise, theta * self.measure.unit))
        return replace(self, terms=terms, useless=useless)

    def model(self) -> Model:
        """Return the released model, trained now on the public set; refused if nothing is released."""
        if self.tuned is None:
            raise no_model()
        return _trainer_of(self.public.problem).train(self.tuned.value["hyperparameters"])


def watching(spec: StudySpec, context: QueryContext, section: WatchSection) -> Watching:
    """Return the watch of the model that a study released; refused before it has."""
    watch = planned_watch(spec, context, section)
    if watch.tuned is None:
        raise not_released(spec, context.ledger)
    return watch


def planned_watch(spec: StudySpec, context: QueryContext, section: WatchSection) -> Watching:
    """The watch (model, terms, key, price) of the model that a study released or, before that, would release."""
    check_watchable(spec)
    beside = tuple(place_source(parse_place(context.folder, name)) for name in tables_of(section, context.folder))
    run = Run.of(spec, context, *beside)
    public = run.public
    tuned = replay(run.key, context)
    if not (run.method.releases_hyperparameters if tuned is None else model_is_public(tuned)):
        raise no_model()
    counted = counted_of(public.problem)
    key = watch_key(spec, digest_of_released(run.key), counted, section.edition)
    stated = _in_range(section, _reference(section, tuned), public.problem)
    recorded = context.ledger.drawn(key.fingerprint).get(THRESHOLD_NOISE)
    if recorded is not None:
        terms = Terms.from_json(recorded[0])
        check_terms(section, terms, stated)
    else:
        reference = _released_score(tuned, public.problem) if stated is None else stated
        rows, least = rows_in_pool(public.problem, section.pool or 1, spec.accepts), least_of(spec, section)
        terms = asked_terms(section, least_records=least, reference=reference, rows=rows)
    return Watching(spec, public, key, tuned, terms, fixed=recorded is not None)


@dataclass(frozen=True)
class WatchPlan:
    """The price of a watch and how it errs, before anything is spent."""

    price: PrivacyPlan  # of all looks
    terms: Terms  # on which it is, or would be, opened
    threshold: float  # how far below the reference a score raises the alarm, θ less the noise's mean
    noise: Noise  # what is added to a fall, in the same
    spread: float | None  # standard deviation of a record's score that was reckoned with; None if pairs are counted
    power: Power  # how often it errs
    smallest: float  # the least fall that it would find fairly at this price
    compared: Mapping[int, Power]  # how it would err that looked every day at the last w tables, w → that
    recurring: bool  # whether one person is charged for in every table of a pool
    open: bool  # whether it is open already
    # where pairs are counted, the public share of positives that is assumed of every table; else None
    share: float | None = None

    @property
    def useless(self) -> str:
        """Why the watch would find nothing, as text; "" where it would, or where it is open already."""
        return "" if self.open else why_drowned(self.terms, self.noise, self.power)

    @property
    def advised(self) -> int:
        """The smallest of the compared numbers of tables, read as one, that has the best verdict."""
        return min(self.compared, key=lambda pool: (VERDICTS.index(self.compared[pool].verdict), pool))


def plan_watch(
    study: StudySpec, *, ledger: PrivacyLedger, folder: str | Path = ".", section: WatchSection | None = None
) -> WatchPlan:
    """Return the price of a watch and how it errs, from public facts alone. Charges nothing.

    Args, Raises: as `look_once`; a study that released nothing yet is planned with the widest scores there are.
    """
    watch = planned_watch(study, QueryContext(ledger, folder), section_of(study, section)).with_threshold()
    problem, accepts = watch.public.problem, watch.spec.accepts
    terms, measure, spread = watch.terms, watch.measure, watch.spread
    noise = terms.noise(measure, terms.least_records, spread)
    theta = (terms.threshold or 0) * measure.unit
    return WatchPlan(
        price=watch.price,
        terms=terms,
        threshold=theta - noise.mean,
        noise=noise,
        spread=spread if isinstance(measure, MeanMeasure) else None,
        power=power(terms.drop, noise, theta),
        smallest=smallest_drop(noise),
        compared={pool: _power_of(watch, pool) for pool in CADENCE_DAYS},
        recurring=rows_in_pool(problem, DAYS_PER_WEEK, accepts) > problem.max_records_per_person,
        open=watch.fixed,
        share=measure.share if isinstance(measure, PairMeasure) else None,
    )


def _power_of(watch: Watching, pool: int) -> Power:
    """Return the rates of false alarm and detection if each check read a pool of so many tables."""
    terms, problem = watch.terms, watch.public.problem
    rows = rows_in_pool(problem, pool, watch.spec.accepts)
    least = max(1, terms.least_records // terms.pool) * pool
    full_terms = replace(terms, rows=rows, pool=pool, least_records=least)
    return power(terms.drop, full_terms.noise(measure_of(problem, rows), least, watch.spread))


def why_drowned(terms: Terms, noise: Noise, expected: Power) -> str:
    """Why a watch would be useless, as text; "" where it would not, though it may be poor."""
    if expected.verdict != "useless":
        return ""
    least = f"it would find one of {smallest_drop(noise):.2g}"
    return f"at {terms.least_records:,} records a fall of {terms.drop:g} drowns; {least}"


def section_of(study: StudySpec, section: WatchSection | None) -> WatchSection:
    """Return the watch settings: `section`, else the study's [watch], else the defaults."""
    return section or study.watch or WatchSection()


def _released_score(tuned: Release | None, problem: Problem) -> float:
    """Return the study's released score clipped to the score's range; the top of that range before a release."""
    top = problem.aggregate.score_range
    if tuned is not None and tuned.value.get("score") is None:
        raise StudyInvalid(
            "the release states no score from which a fall could be measured",
            cause=str(tuned.value.get(NO_SCORE, "its method releases none")),
            remedy="add reference = 0.8 under [watch], say: a score that is known otherwise",
        )
    return top if tuned is None else min(max(float(tuned.value["score"]), 0.0), top)


def _reference(section: WatchSection, tuned: Release | None) -> float | None:
    """Return the score from which falls are measured: the section's reference, from the metric's unit; or None."""
    released = None if tuned is None else tuned.value.get("score")
    if section.reference is None or tuned is None or released is None or "metric" not in tuned.value:
        return section.reference
    score, metric = float(released), tuned.value["metric"]
    value, stated = float(metric["value"]), section.reference
    return stated - (value - score) if metric["greater_is_better"] else value + score - stated


def _in_range(section: WatchSection, reference: float | None, problem: Problem) -> float | None:
    """The stated reference (or None), refused outside the score's range, as is a drop larger than that range."""
    top = problem.aggregate.score_range
    if section.drop is not None and section.drop > top:
        raise StudyInvalid(
            f"a score between 0 and {top:g} cannot fall by {section.drop:g}",
            cause="drop is in units of the score, and not in per cent",
            remedy="give --drop 0.02, say",
        )
    if reference is None:
        return None
    if not -REFERENCE_TOLERANCE * top <= reference <= top * (1.0 + REFERENCE_TOLERANCE):
        raise StudyInvalid(
            f"watch.reference = {section.reference:g} is not a value of this score",
            cause="it is in the metric's own unit, and not in per cent",
            remedy="give it as dpbo show has the score, or leave it out: the released score",
        )
    return min(max(reference, 0.0), top)


def _trainer_of(problem: Problem) -> Trainer:
    if problem.trainer is None:
        raise no_model()
    return problem.trainer
