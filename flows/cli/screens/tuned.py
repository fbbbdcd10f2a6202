"""`dpbo tune`: the release, its guarantee, what is left, where to look."""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dpbo.flows.cli.screens.account_tables import account_line
from dpbo.flows.cli.screens.evaluated import report_facts
from dpbo.flows.cli.screens.terminal import Screen, named
from dpbo_core.accounting.accounts import Account
from dpbo_core.privacy.metric_shown import MetricShown, metric_shown
from dpbo_core.privacy.noise_standing import OPERATING_SYSTEM
from dpbo_core.privacy.release import Release

if TYPE_CHECKING:
    from dpbo.flows.tune import Tuned


def tuned_json(tuned: "Tuned") -> dict[str, Any]:
    """The object of `dpbo tune --json`."""
    tracked = tuned.tracked
    place = None if tracked is None else {"experiment": tracked.experiment, "run_id": tracked.run_id}
    return release_json(tuned.result.release, replayed=tuned.result.replayed, tracking=place)


def release_json(release: Release, *, replayed: bool, tracking: dict[str, str] | None) -> dict[str, Any]:
    """A release as every command gives it to programs."""
    return release.to_json() | {"replayed": replayed, "tracking": tracking}


def print_tuned(tuned: "Tuned", account: Account) -> None:
    """Print a release as `dpbo tune` shows it."""
    tracked, release = tuned.tracked, tuned.result.release
    if tracked is None:
        look = f"dpbo show {named(asked_for(release))}   (MLflow does not show it yet)"
    else:
        look = f"dpbo ui   (MLflow experiment {named(repr(tracked.experiment))}, run {tracked.run_id[:8]})"
    print_release(release, account, replayed=tuned.result.replayed, look=look)


def asked_for(release: Release) -> str:
    """The word that `dpbo show` finds the release by, as a shell takes it."""
    return shlex.quote(f"{release.study}:{release.edition}")


def print_release(release: Release, account: Account | None, *, replayed: bool, look: str) -> None:
    """A release: its value, its guarantee, what is left of its dataset's budget, where to look."""
    screen = Screen()
    screen.say(f"[bold]{named(release.study)}[/] · edition {named(release.edition)} · {named(release.method)}")
    if replayed:
        screen.say(
            f"released on {named(release.released_at[:10])}; nothing was drawn or spent now. "
            "For new data give the study a new edition."
        )
    screen.say()
    left = [] if account is None else [("budget", account_line(account))]
    screen.facts([*_facts(release, screen), *left, ("look", look)])


def _facts(release: Release, screen: Screen) -> list[tuple[str, str]]:
    value, guarantee = release.value, release.guarantee
    chosen = value.get("hyperparameters", {})
    facts = [(named(name), f"[bold]{named(_number(item))}[/]") for name, item in chosen.items()]
    top = release.facts.get("score_range")
    metric = metric_shown(release)
    if metric is not None:
        facts += _scored(metric)
    if "trajectory" in value:
        scores = screen.spark([point["score"] for point in value["trajectory"]])
        facts.append(("seen", f"{scores}   private scores, step by step"))
    facts += [(named(name), named(_number(item))) for name, item in value.items() if _plain(name, item)]
    facts += report_facts(release)
    draws = f"{len(release.spends)} draws" if len(release.spends) > 1 else "1 draw"
    scored = "" if top is None else f" on a score between 0 and {top:g}"
    noise = f"{draws}; {'; '.join(_scales(release))}{scored}"
    return [
        *facts,
        ("guarantee", named(guarantee.in_words())),
        ("evidence", f"{guarantee.evidence.standing.value}: {named(guarantee.evidence.note)}"),
        ("noise", noise if release.noise == OPERATING_SYSTEM else f"{noise}; INJECTED: NOT PRIVATE"),
    ]


def _scored(metric: MetricShown) -> Iterator[tuple[str, str]]:
    """The metric with its interval, and what it has to beat."""
    interval = metric.interval
    more = f"   90% interval {interval[0]:.3f} … {interval[1]:.3f}" if interval else ""
    less = "" if metric.greater_is_better else "   (less is better)"
    outside = "   (the noise took it out of its range)" if metric.outside else ""
    yield named(metric.name.replace("_", " ")), f"[bold]{metric.value:.4f}[/]{more}{less}{outside}"
    if metric.baseline is not None:
        yield "baseline", f"{metric.baseline:.4f}   the same for every record, by the public training set"


def _scales(release: Release) -> Iterator[str]:
    for mechanism in dict.fromkeys(spend.mechanism for spend in release.spends):
        unit = release.score_per_unit
        scales = [unit * spend.noise_scale for spend in release.spends if spend.mechanism == mechanism]
        ends = dict.fromkeys(f"{end:.3g}" for end in (min(scales), max(scales)))
        yield f"{named(mechanism)}, scale {' … '.join(ends)}"


def _plain(name: str, item: Any) -> bool:
    """Whether a part of the value has no line of its own and fits in one: what an exchange released, say."""
    return name not in ("score", "hyperparameters") and isinstance(item, str | int | float)


def _number(item: Any) -> str:
    return f"{item:.4g}" if isinstance(item, float) else str(item)
