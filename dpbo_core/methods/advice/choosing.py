"""What method = "auto" becomes: the calibrated methods in every form, best first, and why the first.

A function of the study and of public facts alone: nothing is opened and nothing is charged.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.methods import METHODS, check_scored_in_public, method_named
from dpbo_core.methods.advice.expected_loss import Expected, expected
from dpbo_core.methods.contract import Method
from dpbo_core.methods.pair_draws import in_pairs
from dpbo_core.methods.problem import Problem

AUTO = "auto"
EVEN_SHARE_NOTE = ", as if half of the records were positive"
TIE_RATIO = 1.1  # the table's means are known to about a tenth
MIN_RECORDS_PER_EPSILON = 12.0  # records at ε = 1: a choice's noise is then a quarter of the range


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
    """Return the best of `forms`, and why; for a sensitive training set a private training; None if none
    can run.
    """
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
