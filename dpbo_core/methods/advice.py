"""Honest advice before spending: what every method would do on this study, from public facts alone.

Nothing is opened and nothing is charged. A method that cannot run says so in its own words. The expected regret and
score error of the methods that may be recommended come from one simulation (`expected_loss`), so that they compare
like with like; a bound for one and a guess for another would not. `choose` says which of them is recommended, which
is what method = "auto" becomes, and `verdict` what each is worth.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.methods import (
    EXCHANGES,
    METHODS,
    NO_STUDY,
    check_counts,
    check_scored_in_public,
    method_named,
)
from dpbo_core.methods.contract import Method
from dpbo_core.methods.expected_loss import Expected, expected
from dpbo_core.methods.pair_draws import expected_interval, in_pairs
from dpbo_core.methods.problem import Problem, check_lengthscale
from dpbo_core.models.record_isolation import enforced_prediction
from dpbo_core.privacy.release import PrivacyPlan

AUTO = "auto"
EVEN_SHARE_NOTE = ", as if half of the records were positive"
TIE_RATIO = 1.1  # the table's means are known to about a tenth
MIN_RECORDS_PER_EPSILON = 12.0  # records at ε = 1: a choice's noise is then a quarter of the range
Verdict = Literal["good", "poor", "useless", "refused"]
POOR, USELESS = 0.1, 0.25  # expected error as a share of the score's range
DOUBTED, LOST = 0.15, 0.5  # the same of what there is to gain over one answer for every record


@dataclass(frozen=True)
class Choice:
    """A method to choose, its options, and why."""

    kind: str
    options: Mapping[str, Any]
    why: str


def choose(problem: Problem, kind: str, options: Mapping[str, Any]) -> tuple[Method, str]:
    """Return the method of a study, and why: the one it names (why is then ""), or with "auto" the one advised."""
    if kind != AUTO:
        return method_named(kind, options), ""
    check_auto(kind, options)
    choice = recommendation(problem)
    if choice is None:
        raise StudyInvalid(
            'method = "auto" finds no method that can run on this study',
            cause="ε is too small to be divided",
            remedy="raise epsilon",
        )
    return method_named(choice.kind, choice.options), choice.why


def recommendation(problem: Problem) -> Choice | None:
    """Return the method that "auto" chooses on this problem, and why; None if none would run."""
    return choice_of(forms_of(problem), problem)


def check_auto(kind: str, options: Mapping[str, Any]) -> None:
    """Refuse options of a method in a study with method = "auto"."""
    if kind == AUTO and options:
        raise StudyInvalid(
            f'[method] has the key {next(iter(options))!r}, and method = "auto" chooses the options too',
            cause="an option of another method was left over",
            remedy="remove [method], or name the method",
        )


def forms_of(problem: Problem) -> list[tuple[Method, Expected]]:
    """Return the method variants that can run and whose choice noise does not make worthless, best first.

    Variants of pure ε-DP come first if their expected regret is at most `TIE_RATIO` times the least: the simulation
    cannot tell such differences. They are ordered by score error, all others by regret. Variants that release more
    than the choice at the expense of regret (`shows_all`) come last. The list is empty for a sensitive training
    set.
    """
    if problem.training is not None:
        return []  # their models are trained without noise
    runnable = []
    for form in (form for cls in METHODS.values() for form in cls.forms(problem)):
        with suppress(DpboError):  # its line says why it cannot run
            check_scored_in_public(form, problem)
            loss = expected(form, problem)
            if loss is not None and not _is_drowned(form, problem):
                runnable.append((form, loss))
    least = min((loss.regret for form, loss in runnable if not form.shows_all), default=0.0)

    def rank(pair: tuple[Method, Expected]) -> tuple[bool, bool, float]:
        form, loss = pair
        tied = form.plan(problem).guarantee.delta == 0.0 and loss.regret <= TIE_RATIO * least
        return form.shows_all, not tied, loss.score_error if tied else loss.regret

    return sorted(runnable, key=rank)


def _is_drowned(form: Method, problem: Problem) -> bool:
    """Return whether noise makes a method's choice worthless; False if it has one step, or no simulation."""
    simulated = form.simulated(problem)
    return (
        simulated is not None and form.n_steps(problem) > 1 and simulated.choice_records < MIN_RECORDS_PER_EPSILON
    )


def choice_of(forms: list[tuple[Method, Expected]], problem: Problem) -> Choice | None:
    """Return the best of `forms`, and why; of a sensitive training set a private training; None if none can run."""
    if problem.training is not None:
        trained = privately_trained(problem)
        if trained is None:
            return None
        why = f"the training set is sensitive; {trained.outlook(problem).why}"
        return Choice(trained.kind, changed_options(trained), why)
    if not forms:
        return None
    (best, loss), others = forms[0], forms[1:]
    share = EVEN_SHARE_NOTE if in_pairs(problem) else ""
    share = share if problem.positives is None else f", {problem.positives:.1%} of them positive as in public"
    averaged = f"{problem.n_averaged} {problem.counted}"
    facts = f"{averaged}, ε = {problem.epsilon:g}, {len(problem.candidates)} candidates{share}"
    if best.n_steps(problem) > 1 or len(problem.candidates) == 1:
        n_methods = len({form.kind for form, _ in forms})
        why = f"among {len(forms)} variants of {n_methods} methods it is expected to lose least ({facts})"
    else:
        why = f"at this noise no private choice is expected to beat the public one ({facts})"
    why += f": {loss.caption} below the best"
    why += "" if loss.range is None else ", the least if the public set resembles yours, the most if it misleads"
    if others:
        second, other = others[0]
        changed = ", ".join(f"{name} = {value}" for name, value in changed_options(second).items())
        why += f"; next best: {second.kind}{f' ({changed})' if changed else ''}, {other.caption}"
    return Choice(best.kind, changed_options(best), why)


def privately_trained(problem: Problem) -> Method | None:
    """Return the first variant of a method that trains privately and can plan this problem; None if none can."""
    for form in (form for cls in METHODS.values() if cls.trains_privately for form in cls.forms(problem)):
        with suppress(DpboError):
            form.plan(problem)
            return form
    return None


def changed_options(method: Method) -> dict[str, Any]:
    """Return the options that differ from the method's defaults."""
    usual = type(method)().options
    return {name: value for name, value in method.options.items() if value != usual[name]}


def verdict_of(noise_scale: float, expected_error: float, score_range: float, gain: float | None = None) -> Verdict:
    """Good, poor or useless: noise and error against the score's range and any `gain` over a constant answer."""
    to_gain = math.inf if gain is None else gain
    if expected_error >= min(USELESS * score_range, LOST * to_gain) or noise_scale >= score_range:
        return "useless"
    return "poor" if expected_error >= min(POOR * score_range, DOUBTED * to_gain) else "good"


def useful_from(method: Method, problem: Problem) -> int | None:
    """Return from how many records on the method's verdict would be "good", to two digits; None if never."""

    def useful(n_records: int) -> bool:
        larger = replace(problem, n_validation=n_records)
        with suppress(DpboError):
            outlook, loss = method.outlook(larger), expected(method, larger)
            error = outlook.expected_error if loss is None else whole_error(loss)
            return verdict_of(outlook.noise_scale, error, larger.aggregate.spread) == "good"
        return False

    ladder = [digits * 10**power for power in range(1, 8) for digits in range(10, 100)]
    place = bisect_left(ladder, x=True, key=useful)
    return ladder[place] if place < len(ladder) else None


def enough(good: Callable[[float], bool], above: float, account: Account | None) -> str:
    """Return a clause: the smallest ε above `above` at which `good` is true, or that what is left is not enough."""
    ladder = [digits / 10**power for power in range(3, -1, -1) for digits in range(10, 100)]
    most = ladder[-1] if account is None else min(account.left, ladder[-1])
    ladder = [epsilon for epsilon in ladder if above < epsilon <= most]
    place = bisect_left(ladder, x=True, key=good)
    if place < len(ladder):
        return f"good from ε = {ladder[place]:g}"
    return f"no ε up to {most:.3g} is enough" if ladder else "nothing larger is left of the cap"


def useful_in_words(problem: Problem, least: int | None) -> str:
    """Return a clause that states from how many records, `least` (None: never), counting pairs is useful."""
    where = "with as many positives as negatives, and later the rarer one of them is"
    if problem.positives is not None:
        where = f"at the public share of positives, {problem.positives:.1%}"
    number = "for no number of" if least is None else f"from about {least:,}"
    return f"counting pairs is useful {number} records {where}"


def whole_error(loss: Expected) -> float:
    """Return the released score's expected distance from the best score: regret and noise, to one digit."""
    return one_digit(loss.regret + loss.score_error)


def one_digit(value: float) -> float:
    """Return a simulated number rounded to one significant digit."""
    return float(f"{value:.1g}")


@dataclass(frozen=True, kw_only=True)
class MethodAdvice:
    """One line of `dpbo plan`; what has a default is not known of a method that is refused."""

    kind: str
    score_range: float
    options: Mapping[str, Any]
    verdict: Verdict
    why: str
    epsilon: float | None = None
    delta: float = 0.0
    noise_scale: float | None = None
    expected_error: float | None = None
    score_error: float | None = None  # of the released score alone, without what the choice loses
    expected_regret: float | None = None
    expected_regret_range: tuple[float, float] | None = None
    regret_caption: str = ""
    trainings: int | None = None
    assumptions: tuple[str, ...] = ()
    evidence: str = ""
    seconds: float | None = None  # of scoring, estimated; None if records are not scored in processes
    useful_from: int | None = None  # records, where pairs are counted; None for no number of them
    warning: str = ""  # where pairs are counted: that no score, or a vague one, is to be expected
    condition: str = ""  # what nobody can check and the expectation rests on
    instead: str = ""  # the method's form that errs least, a clause

    def to_json(self) -> dict[str, Any]:
        """Return one method's entry in the JSON of `dpbo plan`, null where a refused method has no number."""
        return {
            "kind": self.kind,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "noise_scale": self.noise_scale,
            "score_range": self.score_range,
            "expected_error": self.expected_error,
            "expected_regret": self.expected_regret,
            "expected_regret_range": self.expected_regret_range and list(self.expected_regret_range),
            "options": dict(self.options),
            "trainings": self.trainings,
            "assumptions": list(self.assumptions),
            "evidence": self.evidence,
            "verdict": self.verdict,
            "why": self.why,
            **({} if self.seconds is None else {"estimated_seconds": self.seconds}),
            **({} if self.useful_from is None else {"useful_from": self.useful_from}),
            **({"warning": self.warning} if self.warning else {}),
        }


@dataclass(frozen=True)
class Advice:
    """Every method's line, and what to choose (None if nothing would run)."""

    choice: Choice | None
    methods: tuple[MethodAdvice, ...]
    positives: float | None = None  # public share of the second class, where pairs are counted and it was looked up
    n_public: int | None = None  # records of the public training set, where they were counted
    best: MethodAdvice | None = None  # the line of the choice, with its options
    enough: str = ""  # from which ε on it would be good, as text, where that was requested

    @property
    def recommended(self) -> str | None:
        """The kind of the recommended method; None if none would run."""
        return self.choice.kind if self.choice else None

    def to_json(self) -> dict[str, Any]:
        """Return the object that `dpbo plan --json` prints; public facts that nobody looked up are left out."""
        return {
            "recommended": self.recommended,
            "recommended_options": dict(self.choice.options) if self.choice else None,
            "recommended_because": self.choice.why if self.choice else None,
            "methods": [line.to_json() for line in self.methods],
            **({} if self.positives is None else {"public_share": self.positives}),
            **({} if self.n_public is None else {"public_records": self.n_public}),
            **({"enough": self.enough} if self.enough else {}),
        }


def advise(problem: Problem, own_kind: str, options: Mapping[str, Any], *, reported: bool = False) -> Advice:
    """Every method's price and expected error: the study's own with its options, others as they serve best.

    `reported`: whether a report that is charged with the choice states the study's score.
    """

    def scored(method: Method) -> Method:
        return method.scored_by_report(problem) if reported else method

    check_scoring(problem)
    own = None if own_kind == AUTO else scored(method_named(own_kind, options))
    check_auto(own_kind, options)
    forms = forms_of(replace(problem, positives=None, n_public=None))  # as "auto" chooses, which opens no file
    forms = [(scored(form), expected(scored(form), problem) or loss) for form, loss in forms]
    least = expected(forms[0][0], problem) if forms else None
    lines = []
    for kind, cls in METHODS.items():
        best: Method = next((form for form, _ in forms if form.kind == kind), cls())
        if problem.training is not None and cls.trains_privately:
            best = privately_trained(problem) or best
        lines.append(_method_advice(own if own is not None and kind == own.kind else best, problem, least))
    elsewhere = tuple(
        MethodAdvice(kind=kind, score_range=problem.score_range, options={}, verdict="refused", why=NO_STUDY)
        for kind in EXCHANGES
    )
    choice = choice_of(forms, problem)
    chosen = None if choice is None else _method_advice(method_named(choice.kind, choice.options), problem, least)
    return Advice(choice, (*lines, *elsewhere), problem.positives, problem.n_public, chosen)


def why_useless(method: Method, problem: Problem, plan: PrivacyPlan) -> str:
    """Why `dpbo plan` calls a method, at this `plan`, useless on a problem, in a sentence; "" where it does not."""
    line = _method_advice(method, problem, None, plan)
    if line.verdict != "useless":
        return ""
    gain = "" if problem.baseline is None else f"; {one_digit(line.score_range - problem.baseline):g} is to gain"
    return (
        f"this study's answer would be noise: an error of {line.expected_error:.1g} is expected of a score between "
        f"0 and {line.score_range:g}{gain}" + (f"; {line.instead}" if line.instead else "")
    )


def check_scoring(problem: Problem) -> None:
    """Refuse a study that scores each record in a process of its own where this machine cannot."""
    if problem.model.enforced:
        enforced_prediction().check()


def _method_advice(
    method: Method, problem: Problem, beside: Expected | None, plan: PrivacyPlan | None = None
) -> MethodAdvice:
    G, options = problem.score_range, changed_options(method)
    try:
        check_counts(method, problem)
        check_scored_in_public(method, problem)
        check_lengthscale(method, problem)
        plan = plan or method.plan(problem)
        outlook, loss = method.outlook(problem), expected(method, problem)
    except DpboError as error:
        return MethodAdvice(kind=method.kind, score_range=G, options=options, verdict="refused", why=error.what)
    guarantee = plan.guarantee
    evidence = guarantee.evidence
    regret, error_expected, why = None, outlook.expected_error, outlook.why
    least, warning = None, ""
    if loss is not None:
        regret, error_expected = one_digit(loss.regret), whole_error(loss)
        why += f"; in simulations its choice scores {loss.caption} below the best"
        if loss.score_error > 0.0:
            why += f", and the reported score is off by {loss.score_error:.1g}"
        if beside is not None and loss.low > beside.low and loss.high > beside.high:
            cost = "more than the recommended method, by an unknown amount"
            if None not in (loss.range, beside.range):
                cost = f"about {one_digit(loss.high - beside.high):g} more than the recommended method"
            why += f"; showing every score costs {cost}" if method.shows_all else f"; {cost}"
    error_expected, spread = min(error_expected, G), problem.aggregate.spread
    gain = None if problem.baseline is None else G - problem.baseline
    verdict = verdict_of(outlook.noise_scale, error_expected, spread, gain)
    if gain is not None and verdict in ("poor", "useless"):
        why += (
            f"; on the public training set, always giving the same answer scores only {one_digit(gain):g} below "
            "the best "
            "possible score"
        )
    if in_pairs(problem):
        least = useful_from(method, problem)
        warning = expected_interval(problem, method.draws(problem))
        why += f"; {useful_in_words(problem, least)}{'; ' if warning else ''}{warning}"
    if evidence.refuted:
        verdict, why = "refused", f"{evidence.note}; it runs only on a dataset declared public"
    elif verdict == "good" and method.condition:
        why = f"good only if {method.condition}: {why}"
    elif outlook.noise_scale >= spread:
        why = f"the noise reaches the score's whole range: {why}"
    ends, m = None if loss is None else loss.range, problem.n_validation
    seconds = None
    if problem.model.enforced and m is not None:
        seconds = enforced_prediction().seconds_expected(m, outlook.trainings)
    return MethodAdvice(
        kind=method.kind,
        epsilon=None if evidence.refuted else guarantee.epsilon,
        delta=guarantee.delta,
        noise_scale=outlook.noise_scale,
        score_range=G,
        expected_error=error_expected,
        score_error=error_expected if loss is None else min(loss.score_error, G),
        expected_regret=regret,
        expected_regret_range=None if ends is None else (one_digit(ends[0]), one_digit(ends[1])),
        regret_caption="" if loss is None else loss.short,
        options=options,
        trainings=outlook.trainings,
        assumptions=guarantee.assumptions,
        evidence=evidence.standing.value,
        verdict=verdict,
        why=why,
        seconds=seconds,
        useful_from=least,
        warning=warning,
        condition=method.condition,
        instead=outlook.instead,
    )
