"""The screens of a release: its value, its guarantee, what is left, where to look; and what each line means."""

import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dpbo.flows.cli.budget import account_line
from dpbo.flows.cli.report_screen import print_figures, report_facts
from dpbo.flows.cli.terminal import Screen, named
from dpbo.flows.stores import MLFLOW_PAGE, Stores
from dpbo.tasks.reporting.noise_words import noise_in_words
from dpbo.tasks.reporting.verdict import next_step, verdict
from dpbo_core.errors import printable
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.address import team_setting
from dpbo_core.privacy.displayed_metric import DisplayedMetric, displayed_metric
from dpbo_core.privacy.release import LEARNED_FROM, NO_SCORE, PAIRS, Release
from dpbo_core.report import FOUR_COUNTS

if TYPE_CHECKING:
    from dpbo.tasks.reporting.mlflow_lookup import Tracked
    from dpbo_core.privacy.release import StudyResult
    from dpbo_core.report.evaluation import EvaluationResult
    from dpbo_core.report.repair import Repair

BESIDE = {PAIRS: " of as many pairs of the two classes as halves would make"}


def release_json(result: "StudyResult | EvaluationResult", *, tracking: dict[str, str] | None) -> dict[str, Any]:
    """The release as JSON, with `replayed` and `tracking`, its place in MLflow or null."""
    return result.release.to_json() | {"replayed": result.replayed, "tracking": tracking}


def print_report(result: "EvaluationResult", tracked: "Tracked | None", account: Account) -> None:
    """Print a report: figures, guarantee, budget left, where to look, and any repair."""
    release, best = result.release, result.best_threshold
    look = where_to_look(release, tracked)
    print_release(result, account, look=look, best=best)
    if result.repair is not None:
        print_repair(result.repair)


def evaluated_json(result: "EvaluationResult", tracked: "Tracked | None") -> dict[str, Any]:
    """A report, its best threshold, repair and place in MLflow, as the JSON object of `dpbo evaluate --json`."""
    best = None if result.best_threshold is None else dict(result.best_threshold)
    return release_json(result, tracking=place(tracked)) | {
        "best_threshold": best,
        **({} if result.repair is None else {"repair": result.repair.to_json()}),
    }


def print_repair(repair: "Repair") -> None:
    """Print a model's repair with its figures before and after, and which of them are optimistic."""
    screen, document = Screen(), repair.to_json()
    screen.say()
    if repair.before != repair.after:
        _print_sides(screen, repair)
    at = "" if repair.probability is None else f", a probability of {repair.probability:.3g}"
    screen.facts(
        [
            ("repair", named("; ".join(repair.why))),
            (
                "fit",
                f"log-odds × {repair.slope:.3g} + {repair.intercept:.3g}; flag above {repair.threshold:.4g}{at}",
            ),
            ("optimism", named(document["optimism"])),
            ("price", named(document["price"])),
        ]
    )


def _print_sides(screen: Screen, repair: "Repair") -> None:
    """Print a repair's figures, counts and probabilities before and after."""
    rows = []
    for name, before in repair.before["metrics"].items():
        rows.append(
            (name.replace("_", " "), *(interval_cells(side) for side in (before, repair.after["metrics"][name])))
        )
    sides = repair.before["confusion"], repair.after["confusion"]
    rates, counts = ("recall", "precision", "specificity"), FOUR_COUNTS
    rows += [(name, *(interval_cells(side[name]) for side in sides)) for name in rates]
    rows += [
        (name.replace("_", " "), *(interval_cells(side["counts"][name], 0) for side in sides)) for name in counts
    ]
    screen.table(("repair", "before (noise, 90%)", "after (noise, 90%)"), rows, left=1)
    bins = zip(repair.before["calibration"], repair.after["calibration"], strict=True)
    reliability = [
        (_percent(old["predicted"]), _percent(new["predicted"]), interval_cells(old["observed"]))
        for old, new in bins
    ]
    if reliability:
        screen.table(("predicted", "repaired", "observed"), reliability, left=0)


def interval_cells(cell: Mapping[str, Any], digits: int = 3) -> str:
    """A figure with its noise interval, to `digits` decimals, as one cell; a dash where noise swamps it."""
    if cell["value"] is None or cell["noise_interval"] is None:
        return "–"
    low, high = cell["noise_interval"]
    return f"{cell['value']:.{digits}f} ({low:.{digits}f} … {high:.{digits}f})"


def _percent(share: float | None) -> str:
    """A share in per cent; a dash for None."""
    return "–" if share is None else f"{share:.1%}"


def where_to_look(release: Release, tracked: "Tracked | None") -> str:
    """Where MLflow shows a release, or the command that prints it again where it does not, escaped for a screen."""
    if tracked is None:
        word = shlex.quote(f"{release.study}:{release.edition}")
        return f"dpbo show {named(word)}   (MLflow does not show it yet)"
    if (page := Stores().mlflow_page) != MLFLOW_PAGE:
        return named(f"{page}/{tracked.location}")
    return f"dpbo ui   (MLflow experiment {named(repr(tracked.experiment))}, run {tracked.run_id[:8]})"


def print_registered(model_uri: str) -> None:
    """Print a registered version, and below it the command that serves it, in one line for copying."""
    name, version = model_uri.removeprefix("models:/").rsplit("/", 1)
    own = Stores().mlflow_tracking_uri is None and team_setting() is None
    store = "MLFLOW_TRACKING_URI=sqlite:///mlruns/mlflow.db " if own else ""
    where, folder = "MLflow", ", from this folder"
    if (page := Stores().mlflow_page) != MLFLOW_PAGE:
        where, folder, store = (
            f"MLflow at {named(page)}",
            "",
            f"MLFLOW_TRACKING_URI={shlex.quote(printable(page))} ",
        )
    Screen().say(f"\nRegistered in {where}: {named(name)}, version {version}. To serve it{folder}:")
    model = shlex.quote(printable(model_uri))
    sys.stdout.write(f"  {store}mlflow models serve --env-manager local --port 5001 -m {model}\n")


def print_next(release: Release) -> None:
    """Print what to do with a release, in the words of its page in MLflow."""
    Screen().say(f"\n[bold]Next:[/] {named(next_step(release))}.")


def place(tracked: "Tracked | None") -> dict[str, str] | None:
    """MLflow's experiment and run of a release, as JSON; None where MLflow does not show it."""
    return None if tracked is None else {"experiment": tracked.experiment, "run_id": tracked.run_id}


def print_release(
    result: "StudyResult | EvaluationResult",
    account: Account | None,
    *,
    look: str,
    best: Mapping[str, Any] | None = None,
) -> None:
    """Print a release: value, an evaluation's `best` threshold, guarantee, budget left, and where to `look`.

    Args:
        result: the release, as it was recorded, and whether it had been released before.
        account: its dataset's; None where it is not at hand.
        look: where more of it is shown.
        best: of an evaluation, the best threshold for the costs that are stated now.
    """
    screen, release = Screen(), result.release
    screen.say(f"[bold]{named(release.study)}[/] · edition {named(release.edition)} · {named(release.method)}")
    if result.replayed:
        screen.say(
            f"released on {named(release.released_at[:10])}; nothing was drawn or spent now. "
            f"For new data give the {'evaluation' if 'metrics' in release.value else 'study'} a new edition."
        )
    screen.say()
    print_figures(screen, release.value)
    left = [] if account is None else [("budget", account_line(account, study=release.study))]
    screen.facts([*_facts(release, screen, best), *left, ("look", look)])


def _facts(release: Release, screen: Screen, best: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """The rows of a release's screen, name and text: choice, metric, report, `best` threshold, guarantee, noise."""
    value, guarantee = release.value, release.guarantee
    chosen = value.get("hyperparameters", {})
    facts = [(named(name), f"[bold]{named(_number(item))}[/]") for name, item in chosen.items()]
    facts += _ends(chosen, release.facts.get("space", {}))
    metric = displayed_metric(release)
    if metric is not None:
        facts += [_metric_row(metric), *_verdict(release)]
    if "trajectory" in value and NO_SCORE not in value:
        scores = screen.spark([point["score"] for point in value["trajectory"]])
        facts.append(("steps", f"{scores}   their private scores"))
    facts += [
        (named(name.replace("_", " ")), named(_number(item) + BESIDE.get(name, "")))
        for name, item in value.items()
        if name not in ("score", "hyperparameters") and isinstance(item, str | int | float)
    ]
    facts += [*(_verdict(release) if metric is None else ()), *report_facts(value, release.facts, screen, best)]
    return [
        *facts,
        ("guarantee", named(guarantee.in_words())),
        ("evidence", f"{guarantee.evidence.standing.value}: {named(guarantee.evidence.note)}"),
        ("noise", named(noise_in_words(release))),
        *_untrained(release),
        *_earlier_editions(release),
    ]


def _untrained(release: Release) -> Iterator[tuple[str, str]]:
    """A row with the candidates that could not be trained, where there are any."""
    if release.facts.get("untrained"):
        from dpbo.tasks.reporting.certificate_words import untrained_words

        yield "not trained", named(untrained_words(release))


def _ends(chosen: Mapping[str, Any], space: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A row for each chosen hyperparameter that stands at an end of its axis of the public search space."""
    for name, item in chosen.items():
        if item in [space[name][end] for end in ("low", "high") if end in space.get(name, {})]:
            text = f"{named(name)} = {_number(item)} is the end of the range: a wider range may be better"
            yield "range", f"{text} (a new edition costs ε again)"


def _earlier_editions(release: Release) -> Iterator[tuple[str, str]]:
    """The row that names the earlier editions (runs) that the search learned from; none if it learned from none."""
    earlier = release.facts.get(LEARNED_FROM)
    if earlier:
        names = ", ".join(named(item["edition"]) for item in earlier)
        yield "began with", f"what editions {names} released"


def _metric_row(metric: DisplayedMetric) -> tuple[str, str]:
    """The row of a metric, name and text: its released value, 90% noise interval, and whether less is better."""
    interval = metric.interval
    more = f"   90% interval {interval[0]:.3f} … {interval[1]:.3f}" if interval else ""
    less = "" if metric.greater_is_better else "   (less is better)"
    outside = "   (the noise took it out of its range)" if metric.outside else ""
    return named(metric.name.replace("_", " ")), f"[bold]{metric.value:.4f}[/]{more}{less}{outside}"


def _verdict(release: Release) -> Iterator[tuple[str, str]]:
    """The row that states whether the model beats a constant answer; none where that is unknown."""
    word, numbers = verdict(release)
    if word:
        yield "verdict", f"[bold]{word}[/]{named(numbers)}"


def _number(item: Any) -> str:
    """A float to four significant digits; another value as text."""
    return f"{item:.4g}" if isinstance(item, float) else str(item)


def print_explained(release: Release, account: Account) -> None:
    """Print what each part of a release means, a paragraph each."""
    screen = Screen()
    screen.say("\n[bold]What this means[/]")
    for title, text in _paragraphs(release, account):
        screen.say(f"\n[bold]{title}.[/] {text}")


def _paragraphs(release: Release, account: Account) -> Iterator[tuple[str, str]]:
    """Title and text of each paragraph in which `dpbo show --explain` explains a release."""
    from dpbo.tasks.reporting.certificate_words import guess, meaning

    metric = displayed_metric(release)
    if release.value.get("hyperparameters"):
        yield (
            "The choice",
            "The hyperparameters that the search ended with. It saw the sensitive records only through noised "
            "scores, so another run could end elsewhere, where the scores are nearly as good.",
        )
    if metric is not None:
        yield "The score", named(_score_in_words(metric))
    elif NO_SCORE in release.value:
        yield "The score", named(f"None is stated: {release.value[NO_SCORE]}")
    yield (
        "The noise",
        "Drawn from the operating system, and added before anything was recorded or shown. It is the price: "
        "fewer records or a smaller ε mean more of it. Do not run again for a luckier draw: the same study gives "
        "the same release, and a new edition spends again.",
    )
    yield "The guarantee", named(" ".join(part for part in (meaning(release), guess(release)) if part))
    yield (
        "Evidence",
        "How well the proof of that stands: standard is a textbook's or a library's, printed a paper's as it "
        "stands, corrected a paper's with its error mended. Assumptions are what nobody here could check.",
    )
    yield (
        "The budget",
        f"{account_line(account)}. Every release about the same people adds to it, whoever asks; when the cap is "
        "reached the next study is refused before a record is read, and nothing is ever given back.",
    )
    yield (
        "Next",
        f"{next_step(release)}. dpbo show {named(release.study)}:{named(release.edition)} --html FILE writes the "
        "certificate to send round; dpbo ui shows it all.",
    )


def _score_in_words(metric: DisplayedMetric) -> str:
    """What the score means, in sentences."""
    better = "more is better" if metric.greater_is_better else "less is better"
    sentence = f"{metric.name.replace('_', ' ')} on the sensitive records, {better}, with noise in it"
    if metric.interval is not None:
        low, high = metric.interval
        sentence += f"; the 90% interval for the score without the noise is {low:.3f} to {high:.3f}"
    if metric.baseline is not None:
        gain = metric.value - metric.baseline if metric.greater_is_better else metric.baseline - metric.value
        sentence += f". A model that says the same of every record would score {metric.baseline:.3f} "
        sentence += f"on {metric.baseline_set}: "
        sentence += f"this one is {abs(gain):.3f} {'better' if gain > 0 else 'worse'}"
    return f"{sentence}."
