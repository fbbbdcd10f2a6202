"""Honest advice before spending: what every method would do on this study, from public facts alone.

Nothing is opened and nothing is charged. A method that cannot run says so in its own words. The expected regret and
score error of the methods that may be recommended come from one simulation (`calibration`), so that they compare
like with like; a bound for one and a guess for another would not. `choose` makes method = "auto" a method: the same
advice, a function of the study and of public facts alone.
"""

from bisect import bisect_left
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from dpbo_core.advice.expected_loss import Expected, expected
from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.methods import (
    EXCHANGES,
    METHODS,
    NO_STUDY,
    AnyMethod,
    check_counts,
    check_scored_in_public,
    counts_pairs,
    method_named,
)
from dpbo_core.methods.contract import Advised, TrainsPrivately
from dpbo_core.methods.kernel import check_lengthscale
from dpbo_core.models.enforced.available import check_enforceable, seconds_expected
from dpbo_core.problem import Problem
from dpbo_core.spec import StudySpec

Verdict = Literal["good", "poor", "useless", "refused"]
AUTO = "auto"
EVENLY = ", half of the records positive"
TIE = 1.1  # the table's means are known to about a tenth
DROWNED = 12.0  # records at ε = 1: a choice's noise is then a quarter of the range
POOR, USELESS = 0.1, 0.25  # expected error as a share of the score's range
DOUBTED, LOST = 0.15, 0.5  # the same of what there is to gain over one answer for every record


@dataclass(frozen=True)
class MethodAdvice:
    """One line of `dpbo plan`."""

    kind: str
    epsilon: float | None
    delta: float
    noise_scale: float | None
    score_range: float
    expected_error: float | None
    expected_regret: float | None
    expected_regret_range: tuple[float, float] | None
    regret_told: str
    options: Mapping[str, Any]
    trainings: int | None
    assumptions: tuple[str, ...]
    evidence: str
    verdict: Verdict
    why: str
    seconds: float | None = None  # of scoring, estimated; None where records are not scored in processes
    useful_from: int | None = (
        None  # records, where pairs are counted; None where means are, or for no number of them
    )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, null where a refused method has no number."""
        return {
            "kind": self.kind,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "noise_scale": self.noise_scale,
            "score_range": self.score_range,
            "expected_error": self.expected_error,
            "expected_regret": self.expected_regret,
            "expected_regret_range": None
            if self.expected_regret_range is None
            else list(self.expected_regret_range),
            "options": dict(self.options),
            "trainings": self.trainings,
            "assumptions": list(self.assumptions),
            "evidence": self.evidence,
            "verdict": self.verdict,
            "why": self.why,
            **({} if self.seconds is None else {"estimated_seconds": self.seconds}),
            **({} if self.useful_from is None else {"useful_from": self.useful_from}),
        }


@dataclass(frozen=True)
class Choice:
    """A method to choose, its options, and why."""

    kind: str
    options: Mapping[str, Any]
    why: str


@dataclass(frozen=True)
class Advice:
    """Every method's line, and what to choose (None if nothing would run)."""

    choice: Choice | None
    methods: tuple[MethodAdvice, ...]
    positives: float | None = None  # public share of the second class, where pairs are counted and it was looked up
    n_public: int | None = None  # records of the public training set, where they were counted
    spread: float | None = None  # of the public scores over Λ, where some were cross-validated

    @property
    def recommended(self) -> str | None:
        """The kind to choose."""
        return self.choice.kind if self.choice else None

    def to_json(self) -> dict[str, Any]:
        """The line of `dpbo plan --json` for this method; what is infinite or unknown is null."""
        return {
            "recommended": self.recommended,
            "recommended_options": dict(self.choice.options) if self.choice else None,
            "recommended_because": self.choice.why if self.choice else None,
            "methods": [line.to_json() for line in self.methods],
            **({} if self.positives is None else {"public_share": self.positives}),
            **({} if self.n_public is None else {"public_records": self.n_public}),
            **({} if self.spread is None else {"public_spread": self.spread}),
        }


def advise(spec: StudySpec, problem: Problem) -> Advice:
    """Price every method; the study's own method with its own options, the others as they serve best.

    Raises:
        StudyInvalid: the study's own method or options are not valid, or this machine cannot score as it says.
    """
    check_scoring(problem)
    own = None if spec.method == AUTO else method_named(spec.method, spec.options)
    _check_auto(spec)
    forms = _forms(replace(problem, positives=None, n_public=None))  # as "auto" chooses, which opens no file
    forms = [(form, expected(form, replace(problem, positives=None)) or found) for form, found in forms]
    least = expected(forms[0][0], problem) if forms else None
    lines = []
    for kind, cls in METHODS.items():
        best: AnyMethod = next((form for form, _ in forms if form.kind == kind), cls())
        if problem.training is not None and issubclass(cls, TrainsPrivately):
            best = _privately_trained(problem) or best
        lines.append(_line(own if own is not None and kind == own.kind else best, problem, least))
    elsewhere = tuple(
        MethodAdvice(
            kind, None, 0.0, None, problem.score_range, None, None, None, "", {}, None, (), "", "refused", NO_STUDY
        )
        for kind in EXCHANGES
    )
    return Advice(
        _choice(forms, problem), (*lines, *elsewhere), problem.positives, problem.n_public, problem.spread
    )


def check_scoring(problem: Problem) -> None:
    """This machine can score each record in a process of its own, where the study says so.

    Raises:
        StudyInvalid: it cannot.
    """
    if problem.model.enforced:
        check_enforceable()


def choose(spec: StudySpec, problem: Problem) -> tuple[AnyMethod, str]:
    """The study's method, and why: its own with its own options, or with "auto" the one advised.

    Raises:
        StudyInvalid: the method or its options are not valid, or "auto" finds none that would run.
    """
    if spec.method != AUTO:
        return method_named(spec.method, spec.options), ""
    _check_auto(spec)
    choice = recommendation(problem)
    if choice is None:
        raise StudyInvalid(
            'method = "auto" finds no method that can run on this study',
            cause="ε is too small to be divided",
            remedy="raise epsilon",
        )
    return method_named(choice.kind, choice.options), choice.why


def recommendation(problem: Problem) -> Choice | None:
    """What "auto" becomes on this problem; None if nothing calibrated would run."""
    return _choice(_forms(problem), problem)


def _check_auto(spec: StudySpec) -> None:
    if spec.method == AUTO and spec.options:
        raise StudyInvalid(
            f'[method] has the key {next(iter(spec.options))!r}, and method = "auto" chooses the options too',
            cause="an option of another method was left over",
            remedy="remove [method], or name the method",
        )


def _forms(problem: Problem) -> list[tuple[AnyMethod, Expected]]:
    """The calibrated methods in every form, best first.

    A pure one that expects at most `TIE` times the least regret, which is all that the simulation can tell, comes
    first; among those the smaller score error, then the order of METHODS. What is chosen for all that it shows, and
    pays for that in regret, comes last: who wants it asks for it.
    """
    if problem.training is not None:
        return []  # their models are trained without noise
    forms = [form for cls in METHODS.values() if issubclass(cls, Advised) for form in cls.forms(problem)]
    known = []
    for form in forms:
        with suppress(DpboError):  # its line says why it cannot run
            check_scored_in_public(form, problem)
            found = expected(form, problem)
            if found is not None and not _drowned(form, problem):
                known.append((form, found))
    least = min((found.regret for form, found in known if not form.DESCRIBED.shows_all), default=0.0)

    def rank(pair: tuple[AnyMethod, Expected]) -> tuple[bool, bool, float]:
        form, found = pair
        tied = form.plan(problem).guarantee.delta == 0.0 and found.regret <= TIE * least
        return form.DESCRIBED.shows_all, not tied, found.score_error if tied else found.regret

    return sorted(known, key=rank)


def _drowned(form: AnyMethod, problem: Problem) -> bool:
    """Whether its noise is so near the score's whole range that no choice of its own can be worth anything."""
    if not isinstance(form, Advised) or form.n_steps(problem) == 1:
        return False
    return form.simulated(problem).chosen_by < DROWNED


def _choice(forms: list[tuple[AnyMethod, Expected]], problem: Problem) -> Choice | None:
    if problem.training is not None:
        trained = _privately_trained(problem)
        if trained is None:
            return None
        why = "the training set is sensitive, and this method alone trains privately"
        return Choice(trained.kind, _changed(trained), why)
    if not forms:
        return None
    (best, found), others = forms[0], forms[1:]
    evenly = EVENLY if counts_pairs(problem) else ""
    facts = f"{problem.averaged}, ε = {problem.epsilon:g}, {len(problem.candidates)} candidates{evenly}"
    if best.n_steps(problem) > 1 or len(problem.candidates) == 1:
        why = f"of {len(forms)} ways it is expected to lose least with this noise ({facts})"
    else:
        why = f"no private choice is expected to be better than the public one with this noise ({facts})"
    why += f": an expected regret {found.told}, least where the public set is like yours, most where it misleads"
    if others:
        second, other = others[0]
        why += f"; before {_in_short(second)}, {other.told}"
    return Choice(best.kind, _changed(best), why)


def _privately_trained(problem: Problem) -> AnyMethod | None:
    """The first form of a method that trains privately which knows the study's hyperparameters and can be paid."""
    for cls in METHODS.values():
        for form in cls.private_forms() if issubclass(cls, TrainsPrivately) else ():
            with suppress(DpboError):
                form.plan(problem)
                return form
    return None


def _changed(method: AnyMethod) -> dict[str, Any]:
    """The options that differ from the method's defaults."""
    usual = type(method)()
    pairs = [(item.name, getattr(method, item.name)) for item in fields(method)]
    return {name: value for name, value in pairs if value != getattr(usual, name)}


def _in_short(method: AnyMethod) -> str:
    options = ", ".join(f"{name} = {value}" for name, value in _changed(method).items())
    return f"{method.kind} ({options})" if options else method.kind


def _one_digit(value: float) -> float:
    """As far as a simulation knows it."""
    return float(f"{value:.1g}")


def _error(found: Expected) -> float:
    """Between what is released and the best score of Λ."""
    return _one_digit(found.regret + found.score_error)


def _line(method: AnyMethod, problem: Problem, beside: Expected | None) -> MethodAdvice:
    G, options = problem.score_range, _changed(method)
    try:
        check_counts(method, problem)
        check_scored_in_public(method, problem)
        check_lengthscale(method, problem)
        plan, outlook, found = method.plan(problem), method.outlook(problem), expected(method, problem)
    except DpboError as error:
        return MethodAdvice(
            method.kind, None, 0.0, None, G, None, None, None, "", options, None, (), "", "refused", error.what
        )
    guarantee = plan.guarantee
    evidence = guarantee.evidence
    regret, error_expected, why = None, outlook.expected_error, outlook.why
    useful_from = None
    if found is not None:
        regret, error_expected = _one_digit(found.regret), _error(found)
        why += (
            f"; in simulations its choice loses {found.told}, and it errs by {found.score_error:.1g} on the score"
        )
        if beside is not None and found.low > beside.low and found.high > beside.high:
            cost = f"about {_one_digit(found.high - beside.high):g} more in regret than the one to choose"
            why += f"; showing every score costs {cost}" if method.DESCRIBED.shows_all else f"; {cost}"
    spread = problem.aggregate.spread
    gain = None if problem.baseline is None else G - problem.baseline
    verdict = _verdict(outlook.noise_scale, error_expected, spread, gain)
    if gain is not None and verdict in ("poor", "useless"):
        why += f"; the same answer for every record leaves {_one_digit(gain):g} to gain, by the public training set"
    if problem.spread is not None and found is not None:
        verdict, told = _beside_spread(verdict, found.regret, problem.spread)
        why += f"; {told}"
    if counts_pairs(problem):
        useful_from = _useful_from(method, problem)
        why += f"; {_in_words(problem, useful_from)}"
    if evidence.refuted:
        verdict, why = "refused", f"{evidence.note}; it runs only on a dataset declared public"
    elif outlook.noise_scale >= spread:
        why = f"the noise reaches the score's whole range: {why}"
    return MethodAdvice(
        kind=method.kind,
        epsilon=None if evidence.refuted else guarantee.epsilon,
        delta=guarantee.delta,
        noise_scale=outlook.noise_scale,
        score_range=G,
        expected_error=error_expected,
        expected_regret=regret,
        expected_regret_range=None if found is None else (_one_digit(found.low), _one_digit(found.high)),
        regret_told="" if found is None else found.short,
        options=options,
        trainings=outlook.trainings,
        assumptions=guarantee.assumptions,
        evidence=evidence.standing.value,
        verdict=verdict,
        why=why,
        seconds=_seconds(problem, outlook.trainings),
        useful_from=useful_from,
    )


def _useful_from(method: AnyMethod, problem: Problem) -> int | None:
    """The least number of records, to two digits, for which this method's verdict would be good; None for none."""

    def useful(n_records: int) -> bool:
        asked = replace(problem, n_validation=n_records)
        with suppress(DpboError):
            outlook, found = method.outlook(asked), expected(method, asked)
            error = outlook.expected_error if found is None else _error(found)
            return _verdict(outlook.noise_scale, error, asked.aggregate.spread) == "good"
        return False

    ladder = [digits * 10**power for power in range(1, 8) for digits in range(10, 100)]
    place = bisect_left(ladder, x=True, key=useful)
    return ladder[place] if place < len(ladder) else None


def _in_words(problem: Problem, useful_from: int | None) -> str:
    share = problem.positives
    where = "with as many positives as negatives, and later the rarer one of them is"
    if share is not None:
        where = f"at the public share of positives, {share:.1%}"
    if useful_from is None:
        return f"counting pairs is useful for no number of records {where}"
    return f"counting pairs is useful from about {useful_from:,} records {where}"


def _seconds(problem: Problem, trainings: int) -> float | None:
    """How long scoring takes where each record is scored alone; None where it is not, or where m is private."""
    if problem.n_validation is None or not problem.model.enforced:
        return None
    return seconds_expected(problem.n_validation, trainings)


def _beside_spread(verdict: Verdict, regret: float, spread: float) -> tuple[Verdict, str]:
    """The verdict where it is known what there is to choose between, and that in words."""
    told = f"the best public score is {_one_digit(spread):g} above that of a middling candidate"
    if regret >= spread:
        worst: Verdict = "poor" if verdict == "good" else verdict
        return worst, f"{told}, and a choice that loses as much is no better than a candidate taken blindly"
    return verdict, f"{told}, of which the choice keeps about {1.0 - regret / spread:.0%}"


def _verdict(noise_scale: float, expected_error: float, score_range: float, gain: float | None = None) -> Verdict:
    """By the range of the score; and by what there is to gain over one answer for all, where that is known."""
    if expected_error >= USELESS * score_range or noise_scale >= score_range:
        return "useless"
    if gain is not None and expected_error >= LOST * gain:
        return "useless"
    if gain is not None and expected_error >= DOUBTED * gain:
        return "poor"
    return "poor" if expected_error >= POOR * score_range else "good"
