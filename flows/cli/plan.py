"""`dpbo plan`: every method priced on a study, what to expect of it, and whether `dpbo tune` would refuse it.

Of a sensitive file only the header and the number of records are read.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomli_w
import typer

from dpbo.flows.cli.running import check_public_here, feature_study, ledger_here, ledger_path
from dpbo.flows.terminal import Screen, named, print_result
from dpbo_core.errors import (
    AssumptionNotAccepted,
    BudgetExceeded,
    BudgetRefused,
    DpboError,
    NoBudget,
    SpendUseless,
    StudyInvalid,
)
from dpbo_core.ledger.accounting.admission import Price
from dpbo_core.ledger.address import is_read_only
from dpbo_core.ledger.sources import is_pattern
from dpbo_core.methods import METHODS, method_named
from dpbo_core.methods.advice import Advice, MethodAdvice, enough, why_useless
from dpbo_core.methods.expected_loss import UNKNOWN_AGREEMENT
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.privacy.certified import QUERIES
from dpbo_core.report.evaluation import EvaluationPlan, planned
from dpbo_core.report.request import check_report, of_a_candidate
from dpbo_core.report.study_price import price_of
from dpbo_core.study import StudySpec
from dpbo_core.study.data_files import n_public
from dpbo_core.study.data_split import public_sources
from dpbo_core.study.editions import planned_if_scheduled
from dpbo_core.study.named_score import FIGURES
from dpbo_core.study.preconditions import paying_account
from dpbo_core.study.public_half import PublicHalf
from dpbo_core.study.resolve import ResolvedStudy, advise_study, resolve
from dpbo_core.study.run import advised_half
from dpbo_core.study.spec import read_study
from dpbo_core.study.trained_models import check_trainable
from dpbo_core.study.tuning import check_first

VERDICT_STYLE = {"good": "green", "poor": "yellow", "useless": "red", "refused": "dim"}
RUNNABLE_VERDICTS = ("good", "poor")
COLUMN_NAMES = ("method", "verdict", "ε", "δ", "noise", "loses", "error", "trained")


def plan(studies: Sequence[Path], *, every_method: bool, rehearse: bool, event: Path | None) -> None:
    """Print what to expect of a study, or of several together, and refuse what tune would refuse."""
    if len(studies) > 1 or event is not None:
        from dpbo.flows.cli.batch import plan_together

        plan_together(studies, event)
        return
    (study,) = studies
    own = feature_study(study)
    if own is not None:
        own.plan(rehearse=rehearse)
        return
    if rehearse:
        raise StudyInvalid("--rehearse is for a study with a [trial]", remedy="leave it out")
    spec = planned_if_scheduled(read_study(study), study.parent)
    folder = study.parent
    check_public_here(public_sources(spec, folder))
    public, n = advised_half(spec, folder), n_public(spec, folder)
    read: dict[str, float | None] = {}
    if public is not None:
        read = {"positives": public.problem.positives, "baseline": public.problem.baseline}

    def advised(epsilon: float) -> Advice:
        requested = spec.replace(privacy=spec.privacy.replace(epsilon=epsilon))
        return advise_study(requested, folder, **read, n_public=n)

    def is_good(epsilon: float) -> bool:
        best = advised(epsilon).best
        return best is not None and best.verdict == "good"

    advice, account = advised(spec.privacy.epsilon), paying_account(spec, ledger_here())
    if advice.best is not None and advice.best.verdict != "good":
        advice = replace(advice, enough=enough(is_good, spec.privacy.epsilon, account))
    report, price, score, refusal = None, None, "", _refusal(spec, folder, public)
    with suppress(DpboError):  # the refusal says why
        price = price_of(resolve(spec, folder), ledger_here(), folder)
        if public is not None and spec.asks_for_evaluation and not spec.compares:
            resolved = resolve(spec, folder)
            query, evaluated, grouping = of_a_candidate(resolved, public, folder)
            report = planned(query, evaluated, grouping, account)
            score = _score_of_report(resolved, evaluated.kind.metrics)

    if refusal is None and price is not None and not price.paid and not spec.privacy.anyway:
        refusal = _useless(resolve(spec, folder), public, report)
    requested = dict(_sections_asked(spec, folder))

    def document() -> dict[str, Any]:
        from dpbo.flows.cli.evaluate import expected_json

        priced: dict[str, Any] = advice.to_json() | {"price": price and price.to_json()}
        if report is not None:
            priced["evaluation"] = expected_json(report) | ({"score": score} if score else {})
        return priced | requested | ({} if refusal is None else {"refused": refusal.message()})

    def screen() -> None:
        if every_method:
            print_every_method(spec, advice, [*requested.items(), *_charges(refusal, report, score)])
        elif isinstance(refusal, StudyInvalid):  # said on standard error, and no method is to blame
            _print_head(Screen(), spec, advice)
        else:
            print_advice(spec, advice, [*requested.items(), *_charges(refusal, report, score)], price)
            path = named(shlex.quote(str(study)))
            Screen().say(f"For every method with its numbers, run dpbo plan {path} --all.")
        capped = price is None or price.account is not None
        if not _is_all_noise(advice) or not isinstance(refusal, SpendUseless | None):
            Screen().say(_next_step(study, spec, advice, report, refusal, capped=capped))

    print_result(document, screen)
    if refusal is not None and _is_on_screen(refusal):
        raise typer.Exit(refusal.exit_code)
    if refusal is not None:
        raise refusal


def _score_of_report(study: ResolvedStudy, figures: tuple[str, ...]) -> str:
    """Return what the choice of private_grid saves where the report tells its score; "" if the report does not."""
    figure, grid = FIGURES.get(study.spec.model.score_name), study.method
    if figure not in figures or not isinstance(grid, PrivateGrid):
        return ""
    share = study.problem.epsilon * (grid.score_share or grid.usual_share(study.problem))
    if grid.score_share == 0.0:
        return f"the report's {figure}: the choice gets the ε = {share:.2g} that a score of its own would cost"
    return f"without score_share in [method] the report states it, and its ε = {share:.2g} goes to the choice"


def _sections_asked(spec: StudySpec, folder: Path) -> Iterator[tuple[str, str]]:
    for name, query in QUERIES.items():
        if query.expected is not None and getattr(spec, name, None) is not None:
            yield name, query.expected(spec, folder)


def _refusal(spec: StudySpec, folder: Path, public: PublicHalf | None) -> DpboError | None:
    """Return the error with which `dpbo tune` would refuse the study by public facts; None if it would run or lacks
    only a cap.
    """
    patterns = (spec.privacy.dataset, spec.data.training_file, spec.data.validation_file)
    try:
        study, ledger = resolve(spec, folder), ledger_here()
        if not any(map(is_pattern, patterns)):  # the files of a schedule's runs may not exist yet
            with suppress(NoBudget):
                check_first(study, None if is_read_only(ledger_path()) else ledger, folder)
        price = price_of(study, ledger, folder)
        if price.change or price.refusal:
            return price.change or price.refusal
        if public is not None:
            check_trainable(study.method, public.problem, public.problem.trainer)
            if spec.asks_for_evaluation:
                check_report(study, public, folder)
    except DpboError as error:
        return error
    return None


def _useless(study: ResolvedStudy, public: PublicHalf | None, report: EvaluationPlan | None) -> DpboError | None:
    """Return the error with which `dpbo tune` refuses to spend on mostly noise; None if the plan expects more."""
    problem = study.problem if public is None else public.problem
    reason = why_useless(study.method, problem, study.plan)
    reason = reason or ("" if report is None else report.expected.warning)
    return SpendUseless(reason) if reason else None


def _next_step(
    path: Path,
    spec: StudySpec,
    advice: Advice,
    report: EvaluationPlan | None,
    refusal: DpboError | None,
    *,
    capped: bool,
) -> str:
    own = [line for line in advice.methods if line.kind == spec.method]
    verdicts: list[str] = [
        line.verdict for line in ([advice.best] if spec.method == "auto" else own) if line is not None
    ]
    verdicts += [] if report is None else [report.expected.verdict]
    if refusal is not None or "refused" in verdicts or ("useless" in verdicts and not spec.privacy.anyway):
        return "Next: change the study; dpbo tune refuses it as it is."
    if not capped:
        dataset = named(shlex.quote(spec.privacy.dataset))
        return f"Next: dpbo budget set {dataset} --epsilon 5 --delta 1e-5"
    return f"Next: dpbo tune {named(shlex.quote(str(path)))}"


def print_advice(
    spec: StudySpec, advice: Advice, more: Iterable[tuple[str, str]] = (), price: Price | None = None
) -> None:
    """Print what to expect of the method to choose and its price, the rows `more`, and which method that is."""
    screen = Screen()
    _print_head(screen, spec, advice)
    screen.facts([*([] if advice.best is None else _expectations(spec, advice, advice.best, price)), *more])
    screen.say()
    _print_choice(screen, spec, advice)


def print_every_method(spec: StudySpec, advice: Advice, more: Iterable[tuple[str, str]] = ()) -> None:
    """Print a line and a reason for each method, also those that cannot run, then the one to choose."""
    screen = Screen()
    _print_head(screen, spec, advice)
    screen.say()
    rows = []
    for line in advice.methods:
        numbers = (line.epsilon, line.delta, line.noise_scale, line.expected_error, line.trainings)
        cells = ["–" if number is None else f"{number:.3g}" for number in numbers]
        cells.insert(3, line.regret_caption or "–")
        verdict = "if alike" if line.verdict == "good" and line.condition else line.verdict
        rows.append((line.kind, f"[{VERDICT_STYLE[line.verdict]}]{verdict}[/]", *cells))
    screen.table(COLUMN_NAMES, rows, left=2)
    screen.say(
        "\nloses: how far the chosen hyperparameters are expected to stay below the best candidate, least if the "
        "public set is like yours, most if it misleads; error: that and the error of the released score; noise: "
        "its scale on the score.\n"
    )
    for line in advice.methods:
        if line.seconds is not None:
            screen.say(f"[bold]{line.kind}[/] {_in_processes(line.seconds)}.")
    for line in advice.methods:
        screen.say(f"[bold]{line.kind}[/]: {named(line.why)}.")
    screen.say()
    if advice.choice is not None:
        screen.say(f"[bold]{advice.choice.kind}[/]: {named(advice.choice.why)}.")
    screen.facts(more)
    _print_choice(screen, spec, advice)


def _print_head(screen: Screen, spec: StudySpec, advice: Advice) -> None:
    screen.say(
        f"[bold]{named(spec.name)}[/] · edition {named(spec.edition)} · dataset {named(spec.privacy.dataset)}"
    )
    facts = [] if advice.n_public is None else [f"{advice.n_public:,} records"]
    facts += [] if advice.positives is None else [f"{advice.positives:.1%} positive"]
    if spec.data.bundled_name or not facts:
        screen.say("No sensitive record was read and nothing was charged.")
    else:
        screen.say(f"Only the public training file's records were read ({', '.join(facts)}); nothing was charged.")
    if spec.budget is not None and spec.budget.editions is not None:
        screen.say(f"Its budget is planned for {spec.budget.editions:,} editions.")


def _expectations(
    spec: StudySpec, advice: Advice, best: MethodAdvice, price: Price | None
) -> list[tuple[str, str]]:
    """Rows (name, text): what to expect of the method to choose, the study's own, and those good on a condition.

    A method that the study names, and that can run, comes first: the study asks for what it releases.
    """
    own = _named_method(spec, advice, best)
    if own is not None:
        words = _beside(own)
        if own.verdict in RUNNABLE_VERDICTS:
            words = f"{_verdict(own)}{_outcome(own)} (score from 0 to {own.score_range:.3g})"
        alone = "a choice" if _score_alone(spec) else "only the choice"
        choice = f"{best.kind}, if you need {alone}: {_verdict(best)}{_outcome(best)}"
        return [("study", f"{own.kind}: {words}"), ("price", _price(own, price)), ("instead", choice)]
    expected = f"{_verdict(best)}{_outcome(best)} (score from 0 to {best.score_range:.3g})"
    if best.condition:
        expected += f", if {best.condition}"
    rows = [("expect", expected), ("price", _price(best, price) + (f"; {advice.enough}" if advice.enough else ""))]
    if best.verdict != "good" and best.useful_from is not None:
        rows.append(("records", f"this score is useful from about {best.useful_from:,} records"))
    if best.warning and best.verdict != "useless":  # which says more
        rows.append(("score", f"[yellow]{named(best.warning)}[/]"))
    for line in advice.methods:
        if line.kind == spec.method and (line.kind, line.options) != (best.kind, best.options):
            rows.append(("study", f"{line.kind}: {_beside(line)}"))
        elif line.condition and line.verdict == "good" and line.kind != best.kind:
            rows.append(("instead", f"{line.kind}: {_beside(line)}"))
    return rows


def _score_alone(spec: StudySpec) -> bool:
    return spec.method in METHODS and not method_named(spec.method, spec.options).releases_hyperparameters


def _named_method(spec: StudySpec, advice: Advice, best: MethodAdvice | None) -> MethodAdvice | None:
    """Return the line of the method that the study names, if not `best` and it runs or releases a score alone."""
    if spec.method not in METHODS or (best is not None and best.kind == spec.method):
        return None
    own = next(line for line in advice.methods if line.kind == spec.method)
    return own if own.verdict in RUNNABLE_VERDICTS or (own.verdict != "refused" and _score_alone(spec)) else None


def _outcome(line: MethodAdvice) -> str:
    error = f"reported score ±{line.score_error:.1g}"
    if line.options.get("score_share") == 0.0 or line.score_error == 0.0:
        error = "no score of its own"
    if line.regret_caption == UNKNOWN_AGREEMENT:
        return f"{error}; the distance of its choice from the best is unknown"
    within = line.regret_caption.removeprefix("≤")
    return f"a choice within {within} of the best; {error}" if within else error


def _charges(
    refusal: DpboError | None, report: EvaluationPlan | None, score: str = ""
) -> Iterator[tuple[str, str]]:
    if report is not None:
        expected = report.expected
        errors = ", ".join(f"{name.removesuffix('_error')} {error:.2g}" for name, error in expected.errors.items())
        verdict = f"[{VERDICT_STYLE[expected.verdict]}]{expected.verdict}[/]"
        text = f"ε = {report.price.guarantee.epsilon:g} more, {verdict}: error of {errors}; {report.enough}"
        yield "report", text.replace("_", " ").replace(" auc", " AUC").removesuffix("; ")
    if score:
        yield "its score", named(score)
    if refusal is not None and _is_on_screen(refusal):
        name, words = ("room", "does not fit") if isinstance(refusal, BudgetExceeded) else ("refused", "as it is")
        yield name, f"[red]{words}[/]: {named(refusal.what)}. To change: {named(refusal.remedy)}"


def _is_on_screen(refusal: DpboError) -> bool:
    """Return whether a refusal has a line on the plan's screen; any other is told as tune tells it."""
    budget = isinstance(refusal, BudgetRefused) and not isinstance(refusal, SpendUseless)
    return budget or isinstance(refusal, AssumptionNotAccepted)


def _beside(line: MethodAdvice) -> str:
    if line.verdict == "refused":
        return f"[red]cannot run[/]: {named(line.why)}"
    if line.verdict == "useless":
        return "[red]its answer would be mostly noise[/]" + (f"; {named(line.instead)}" if line.instead else "")
    if line.verdict == "good" and line.condition:
        return f"good if {line.condition}; {_trainings(line)}"
    return f"{_verdict(line)}{_outcome(line)}; {_trainings(line)}"


def _verdict(line: MethodAdvice) -> str:
    return "" if line.verdict == "good" else f"[{VERDICT_STYLE[line.verdict]}]{line.verdict}[/]: "


def _price(line: MethodAdvice, price: Price | None) -> str:
    seconds = "" if line.seconds is None else f"; {_in_processes(line.seconds)}"
    left = "" if price is None or not price.afterwards else f"; {price.afterwards}"
    sums = f"ε = {line.epsilon:g}, δ = {line.delta:g}"
    if price is not None and "report" in price.parts:
        sums = price.sums
    return f"{sums}; {_trainings(line)}{seconds}{left}"


def _trainings(line: MethodAdvice) -> str:
    return f"{line.trainings} training{'' if line.trainings == 1 else 's'}"


def _in_processes(seconds: float) -> str:
    return f"scores every record in its own process: about {seconds:,.0f} s on this machine"


def _is_all_noise(advice: Advice) -> bool:
    return all(line.verdict in ("useless", "refused") for line in advice.methods)


def _print_choice(screen: Screen, spec: StudySpec, advice: Advice) -> None:
    choice = advice.choice
    if choice is None:
        screen.say("No method can run on this study.")
        return
    if _is_all_noise(advice):
        screen.say(
            "[red]Nothing here is worth its price[/]: the answer would be noise. More records or a larger ε "
            "would help, fewer steps or candidates hardly."
        )
        return
    own = _named_method(spec, advice, advice.best)
    if own is not None and own.verdict in RUNNABLE_VERDICTS and _score_alone(spec):
        screen.say(f"[bold]{own.kind}[/] releases one score and no hyperparameters, as the study asks.")
        return
    if spec.method == "auto":
        screen.say(f'[bold]{choice.kind}[/] is recommended. The study says "auto", so it is used.')
        return
    options = ", ".join(tomli_w.dumps({name: value}).strip() for name, value in choice.options.items())
    settings = f", with {options} in \\[method]" if options else ""
    if choice.kind == spec.method and all(
        spec.options.get(name) == value for name, value in choice.options.items()
    ):
        screen.say(f"[bold]{choice.kind}[/] is recommended, and the study uses it.")
        return
    if own is not None and own.verdict in RUNNABLE_VERDICTS:
        screen.say(f'If you need only the choice, write method = "{choice.kind}"{settings}, or method = "auto".')
        return
    screen.say(
        f'[bold]{choice.kind}[/] is recommended: write method = "{choice.kind}"{settings}, or method = "auto"; '
        f'the study says "{spec.method}".'
    )
