"""`dpbo tune`: the release, its guarantee, what is left, where to look."""

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dpbo.flows.cli.screens.account_tables import account_line
from dpbo.flows.cli.screens.evaluated import print_figures, report_facts
from dpbo.flows.cli.screens.terminal import Screen, named
from dpbo.tasks.reporting.noise_words import noise_in_words
from dpbo_core.accounting.accounts import Account
from dpbo_core.privacy.metric_shown import MetricShown, metric_shown
from dpbo_core.privacy.release import LEARNED_FROM, Release

if TYPE_CHECKING:
    from dpbo.flows.tune import Tuned
    from dpbo.tasks.reporting import Tracked
    from dpbo_core.evaluation.run import EvaluationResult


def tuned_json(tuned: "Tuned") -> dict[str, Any]:
    """The object of `dpbo tune --json`."""
    place = _place(tuned.tracked)
    document = release_json(tuned.result.release, replayed=tuned.result.replayed, tracking=place)
    if tuned.evaluation is None:
        return document
    return document | {"evaluation": evaluated_json(tuned.evaluation, tuned.shown)}


def release_json(release: Release, *, replayed: bool, tracking: dict[str, str] | None) -> dict[str, Any]:
    """A release as every command gives it to programs."""
    return release.to_json() | {"replayed": replayed, "tracking": tracking}


def print_tuned(tuned: "Tuned", account: Account) -> None:
    """Print a release as `dpbo tune` shows it."""
    release = tuned.result.release
    print_release(release, account, replayed=tuned.result.replayed, look=where_to_look(release, tuned.tracked))
    if tuned.evaluation is not None:
        Screen().say()
        print_report(tuned.evaluation, tuned.shown, account)


def print_report(
    result: "EvaluationResult", tracked: "Tracked | None", account: Account, *, champion: str = ""
) -> None:
    """A report: its figures, its guarantee, what is left, where to look, and who is champion if that was asked."""
    release, best = result.release, result.best_threshold
    look = where_to_look(release, tracked)
    print_release(release, account, replayed=result.replayed, look=look, best=best)
    if champion:
        Screen().say()
        Screen().say(named(champion))


def evaluated_json(result: "EvaluationResult", tracked: "Tracked | None") -> dict[str, Any]:
    """The object of `dpbo evaluate --json`."""
    best = None if result.best_threshold is None else dict(result.best_threshold)
    return release_json(result.release, replayed=result.replayed, tracking=_place(tracked)) | {
        "best_threshold": best
    }


def where_to_look(release: Release, tracked: "Tracked | None") -> str:
    """MLflow's page of a release, or what prints it again where MLflow does not show it."""
    if tracked is None:
        return f"dpbo show {named(asked_for(release))}   (MLflow does not show it yet)"
    return f"dpbo ui   (MLflow experiment {named(repr(tracked.experiment))}, run {tracked.run_id[:8]})"


def _place(tracked: "Tracked | None") -> dict[str, str] | None:
    return None if tracked is None else {"experiment": tracked.experiment, "run_id": tracked.run_id}


def asked_for(release: Release) -> str:
    """The word that `dpbo show` finds the release by, as a shell takes it."""
    return shlex.quote(f"{release.study}:{release.edition}")


def print_release(
    release: Release,
    account: Account | None,
    *,
    replayed: bool,
    look: str,
    best: Mapping[str, Any] | None = None,
) -> None:
    """A release: its value, its guarantee, what is left of its dataset's budget, where to look.

    Args:
        release: as it was recorded.
        account: its dataset's; None where it is not at hand.
        replayed: whether it had been released before.
        look: where more of it is shown.
        best: of an evaluation, the best threshold for the costs that are stated now.
    """
    screen = Screen()
    screen.say(f"[bold]{named(release.study)}[/] · edition {named(release.edition)} · {named(release.method)}")
    if replayed:
        screen.say(
            f"released on {named(release.released_at[:10])}; nothing was drawn or spent now. "
            f"For new data give the {'evaluation' if 'metrics' in release.value else 'study'} a new edition."
        )
    screen.say()
    print_figures(screen, release)
    left = [] if account is None else [("budget", account_line(account))]
    screen.facts([*_facts(release, screen, best), *left, ("look", look)])


def _facts(release: Release, screen: Screen, best: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    value, guarantee = release.value, release.guarantee
    chosen = value.get("hyperparameters", {})
    facts = [(named(name), f"[bold]{named(_number(item))}[/]") for name, item in chosen.items()]
    metric = metric_shown(release)
    if metric is not None:
        facts += _scored(metric)
    if "trajectory" in value:
        scores = screen.spark([point["score"] for point in value["trajectory"]])
        facts.append(("seen", f"{scores}   private scores, step by step"))
    facts += [(named(name), named(_number(item))) for name, item in value.items() if _plain(name, item)]
    facts += report_facts(release, screen, best)
    return [
        *facts,
        ("guarantee", named(guarantee.in_words())),
        ("evidence", f"{guarantee.evidence.standing.value}: {named(guarantee.evidence.note)}"),
        ("noise", named(noise_in_words(release))),
        *_begun(release),
    ]


def _begun(release: Release) -> Iterator[tuple[str, str]]:
    """Which earlier editions the search began with; nothing where it began afresh."""
    earlier = release.facts.get(LEARNED_FROM)
    if earlier:
        names = ", ".join(named(item["edition"]) for item in earlier)
        yield "began with", f"what editions {names} released"


def _scored(metric: MetricShown) -> Iterator[tuple[str, str]]:
    """The metric with its interval, and what it has to beat."""
    interval = metric.interval
    more = f"   90% interval {interval[0]:.3f} … {interval[1]:.3f}" if interval else ""
    less = "" if metric.greater_is_better else "   (less is better)"
    outside = "   (the noise took it out of its range)" if metric.outside else ""
    yield named(metric.name.replace("_", " ")), f"[bold]{metric.value:.4f}[/]{more}{less}{outside}"
    if metric.baseline is not None:
        yield "baseline", f"{metric.baseline:.4f}   the same for every record, by the public training set"


def _plain(name: str, item: Any) -> bool:
    """Whether a part of the value has no line of its own and fits in one: what an exchange released, say."""
    return name not in ("score", "hyperparameters") and isinstance(item, str | int | float)


def _number(item: Any) -> str:
    return f"{item:.4g}" if isinstance(item, float) else str(item)
