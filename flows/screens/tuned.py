"""`dpbo tune`: the release, its promise, what is left, where to look."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dpbo_core.accounting.accounts import Account
from dpbo_core.privacy.release import Release
from flows.screens.accounts import account_line
from flows.screens.terminal import Screen, named

if TYPE_CHECKING:
    from flows.tune import Tuned


def tuned_json(tuned: "Tuned") -> dict[str, Any]:
    """`dpbo tune --json`."""
    release, tracked = tuned.result.release, tuned.tracked
    return release.to_json() | {
        "replayed": tuned.result.replayed,
        "tracking": {"experiment": tracked.experiment, "run_id": tracked.run_id},
    }


def print_tuned(tuned: "Tuned", account: Account) -> None:
    """`dpbo tune`."""
    release, screen = tuned.result.release, Screen()
    screen.say(f"[bold]{named(release.study)}[/] · edition {named(release.edition)} · {release.method}")
    if tuned.result.replayed:
        screen.say(
            f"released on {release.released_at[:10]}; nothing was drawn or spent now. "
            "For new data give the study a new edition."
        )
    screen.say()
    experiment = named(repr(tuned.tracked.experiment))
    look = f"dpbo ui   (MLflow experiment {experiment}, run {tuned.tracked.run_id[:8]})"
    screen.facts([*_facts(release, screen), ("budget", account_line(account)), ("look", look)])


def _facts(release: Release, screen: Screen) -> list[tuple[str, str]]:
    value, promise = release.value, release.guarantee
    chosen = value.get("hyperparameters", {})
    facts = [(named(name), f"[bold]{named(_number(item))}[/]") for name, item in chosen.items()]
    top = release.facts["score_range"]
    if "score" in value:
        interval = value.get("interval")
        more = f"   90% interval {interval[0]:.3f} … {interval[1]:.3f}" if interval else ""
        above = "" if 0.0 <= value["score"] <= top else "   (the noise took it out of its range)"
        facts.append(("score", f"[bold]{value['score']:.4f}[/]{more}{above}"))
    if "trajectory" in value:
        scores = screen.spark([point["score"] for point in value["trajectory"]])
        facts.append(("seen", f"{scores}   private scores, step by step"))
    draws = f"{len(release.spends)} draws" if len(release.spends) > 1 else "1 draw"
    noise = f"{draws}; {'; '.join(_scales(release))} on a score between 0 and {top:g}"
    return [
        *facts,
        ("promise", named(promise.in_words())),
        ("evidence", f"{promise.evidence.standing.value}: {named(promise.evidence.note)}"),
        ("noise", noise if release.noise == "operating_system" else f"{noise}; INJECTED: NOT PRIVATE"),
    ]


def _scales(release: Release) -> Iterator[str]:
    for mechanism in dict.fromkeys(spend.mechanism for spend in release.spends):
        scales = [spend.noise_scale for spend in release.spends if spend.mechanism == mechanism]
        ends = dict.fromkeys(f"{end:.3g}" for end in (min(scales), max(scales)))
        yield f"{mechanism}, scale {' … '.join(ends)}"


def _number(item: Any) -> str:
    return f"{item:.4g}" if isinstance(item, float) else str(item)
