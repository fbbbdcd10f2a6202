"""`--explain`: a second screen, which says of each line of the first what it means, with this release's numbers."""

from collections.abc import Iterator

from dpbo.flows.cli.screens.account_tables import account_line
from dpbo.flows.cli.screens.terminal import Screen, named
from dpbo.tasks.reporting.certificate_words import guess, meaning
from dpbo_core.accounting.accounts import Account
from dpbo_core.privacy.metric_shown import MetricShown, metric_shown
from dpbo_core.privacy.release import Release


def print_explained(release: Release, account: Account) -> None:
    """Print what a first reader asks of a release, a paragraph each."""
    screen = Screen()
    screen.say("\n[bold]What this means[/]")
    for title, text in _paragraphs(release, account):
        screen.say(f"\n[bold]{title}.[/] {text}")


def _paragraphs(release: Release, account: Account) -> Iterator[tuple[str, str]]:
    metric = metric_shown(release)
    if release.value.get("hyperparameters"):
        yield (
            "The choice",
            "The hyperparameters that the search ended with. It saw the sensitive records only through noised "
            "scores, so another run could end elsewhere, where the scores are nearly as good.",
        )
    if metric is not None:
        yield "The score", named(_of_score(metric))
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
        f"dpbo show {named(release.study)}:{named(release.edition)} --html FILE writes the certificate to send "
        "round; dpbo evaluate says how good the model is by AUC, recall and groups; dpbo watch whether it goes "
        "stale; dpbo ui shows it all.",
    )


def _of_score(metric: MetricShown) -> str:
    better = "more is better" if metric.greater_is_better else "less is better"
    said = f"{metric.name.replace('_', ' ')} on the sensitive records, {better}, with noise in it"
    if metric.interval is not None:
        low, high = metric.interval
        said += f"; the 90% interval for the score without the noise is {low:.3f} to {high:.3f}"
    if metric.baseline is not None:
        gain = metric.value - metric.baseline if metric.greater_is_better else metric.baseline - metric.value
        said += f". A model that says the same of every record would score {metric.baseline:.3f}: "
        said += f"this one is {abs(gain):.3f} {'better' if gain > 0 else 'worse'}"
    return f"{said}."
