"""What a run's page in MLflow opens with: the certificate in short, for whoever was not there.

It answers six questions in this order: how good is it beside a constant answer, what is next, how sure is it, what
was tuned and is predicted, what may be concluded about a person, what is left. The picture is the run's own.
"""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from dpbo.tasks.reporting.certificate_words import choice_rows, figure_rows, guess, meaning, rests
from dpbo.tasks.reporting.escaping import embedded, in_markdown, in_words
from dpbo.tasks.reporting.evaluation_picture import is_report
from dpbo.tasks.reporting.logged_model import FOLDER
from dpbo.tasks.reporting.logged_numbers import metrics
from dpbo.tasks.reporting.verdict import next_step, verdict
from dpbo_core.ledger.accounting.account import Account, balance_after
from dpbo_core.privacy.displayed_metric import displayed_metric
from dpbo_core.privacy.release import NO_SCORE, Release
from dpbo_core.study.final_training import FinalModel

FIRST = ("trajectory.png", "release.png", "evaluation.png")  # the picture that shows the release itself
BEYOND = ", which may take points of the picture out of the score's range"


def run_note(
    release: Release, account: Account, run_id: str, pictures: Iterable[Path], model: FinalModel | None
) -> str:
    """The Markdown of a run's description in MLflow; nothing that people chose is markup in it.

    Args:
        release: recorded.
        account: its dataset's.
        run_id: of the run that shows it.
        pictures: the run's, by the names of their files.
        model: the run's final model, if it has one.
    """
    return "\n\n".join(_paragraphs(release, account, run_id, [path.name for path in pictures], model))


def _paragraphs(
    release: Release, account: Account, run_id: str, pictures: list[str], model: FinalModel | None
) -> Iterator[str]:
    """The paragraphs of a run's description: six questions with their answers, the picture, more."""
    word, numbers = verdict(release)
    if word:
        yield f"**Verdict:** {word}{in_markdown(numbers)}."
    yield f"**Next:** {next_step(release)}."
    yield f"**What came out, and how sure is it?** {_choice_line(release)}"
    yield f"**What was {'measured' if is_report(release) else 'tuned'}?** {_study_in_words(release, model)}"
    yield f"**What may I conclude about a person?** {_guarantee_in_words(release)}"
    yield f"**What is left?** {_budget_left(release, account)}"
    yield from (embedded(name, run_id) for name in FIRST if name in pictures)
    if model is not None:
        call = f"model = mlflow.pyfunc.load_model('runs:/{run_id}/{FOLDER}')"
        yield (
            f"**How do I use the model?** `{call}`, then `model.predict(rows.astype(model.input_example.dtypes))`, "
            "where `rows` is a data frame with the training set's columns. The model was trained on the public "
            "training set with what was chosen, so it says nothing more of a person. It loads where dpbo is not "
            "installed, with MLFLOW_TRACKING_URI naming this store (`sqlite:///mlruns/mlflow.db` in the folder "
            'where the study ran); with `params={"predict_method": "predict_proba"}` it gives probabilities, a '
            "column a class, where it has them. "
            f"`mlflow models serve --env-manager local --port 5001 -m runs:/{run_id}/{FOLDER}` puts it behind "
            "http://127.0.0.1:5001/invocations, "
            'which takes `{"dataframe_records": [...]}`, or a CSV file as `text/csv`.'
        )
    yield (
        f"**What does this rest on?** {in_markdown(' '.join(rests(release)))} The artifact `release.html` is the "
        "certificate with every draw and the pictures; `dpbo verify release.json` recomputes ε and δ from the "
        "release alone."
    )
    yield f"**What are the metrics below?** {_metrics(release, account)}"


def _metrics(release: Release, account: Account) -> str:
    """What each group of the run's metrics in MLflow means, in one line of Markdown."""
    keys = [metric.key for metric in metrics(release, account)]
    searched = ", and where the search took that candidate's score to be, `posterior`"
    sentences = {
        "release": "`release/…` is the score that was released; the parameter `score.interval` is its interval",
        "score": "`score/…` has the ends of its 90% interval as numbers, and `score` is in the metric's unit",
        "budget": "`budget/…` is the dataset's ε that is spent after this study, and what is left",
        "trajectory": "`trajectory/…` has numbers for every step, of which this page shows the last: its noised "
        f"score{searched if 'trajectory/posterior' in keys else ''}",
        "evaluation": "`evaluation/…` are the figures of the report",
    }
    there = {key.partition("/")[0] for key in keys}
    return "; ".join(text for group, text in sentences.items() if group in there) + "."


def _choice_line(release: Release) -> str:
    """The choice with score, interval and baseline, or a report's figures, in a line of Markdown, escaped."""
    chosen = ", ".join(f"{in_markdown(name)} = **{in_markdown(text)}**" for name, text in choice_rows(release))
    metric = displayed_metric(release)
    if metric is None:
        figures = ", ".join(f"{in_markdown(name)} **{in_markdown(text)}**" for name, text in figure_rows(release))
        why = f"no score: {in_markdown(release.value[NO_SCORE])}" if NO_SCORE in release.value else ""
        return f"{'; '.join(part for part in (chosen, why, figures) if part)}."
    better = "more" if metric.greater_is_better else "less"
    name = in_markdown(metric.name.replace("_", " "))
    sentence = f"{'' if name == 'score' else 'score '}{name} = **{metric.value:.4g}** ({better} is better)"
    if metric.interval is not None:
        beyond = BEYOND if "trajectory" in release.value else ""
        low, high = metric.interval
        sentence += f", 90% interval **{low:.3f}** to **{high:.3f}** (for the noise alone{beyond})"
    else:
        sentence += f", with noise of scale {release.noise_of_one:.3g}"
    if metric.baseline is not None and metric.interval is None:  # else the verdict has it
        sentence += f"; one answer for every record would score **{metric.baseline:.4g}** on {metric.baseline_set}"
    return f"{'; '.join(part for part in (chosen, sentence) if part)}."


def _guarantee_in_words(release: Release) -> str:
    """The guarantee in its own words, as a bet, and as what may change, in Markdown, escaped here."""
    parts = (guess(release), meaning(release))
    return (
        f"**{in_markdown(release.guarantee.in_words())}** {in_markdown(' '.join(part for part in parts if part))}"
    )


def _study_in_words(release: Release, model: FinalModel | None) -> str:
    """What was tuned or measured, what it predicts, on which data, by which method; in Markdown, names escaped."""
    facts, value = release.facts, release.value
    axes = ", ".join(in_markdown(name) for name in facts.get("space", {}))
    of = f"{in_markdown(facts['estimator'])}" if "estimator" in facts else "A model"
    over = f", over {axes}" if axes else ""
    n, persons = facts.get("n_validation"), facts.get("n_persons")
    on = f" of {persons:,} persons" if persons is not None else "" if n is None else f" of {n:,} sensitive records"
    steps = f", {facts['steps']} steps" if "trajectory" in value and "steps" in facts else ""
    candidates = f" among {facts['n_candidates']:,} candidates" if "n_candidates" in facts else ""
    named = (in_markdown(name) for name in (release.dataset, release.study, release.edition, release.method))
    dataset, study, edition, method = named
    whose = f"on the dataset {dataset}{on}; study {study}, edition {edition}"
    return f"{of}{over}, {whose}, by {method}{candidates}{steps}.{_predicted(release, model)}"


def _predicted(release: Release, model: FinalModel | None) -> str:
    """Which column is predicted and which class is positive, in words; "" where neither is stated."""
    positive, sentence = release.value.get("table", {}).get("positive_class"), ""
    if model is not None:
        classes = model.classes
        of = f", one of {len(classes)} classes" if len(classes) > 2 else ""
        sentence = f" It predicts {in_markdown(model.preprocessing.target)}{of}."
        positive = classes[1] if len(classes) == 2 else None
    return sentence if positive is None else f"{sentence} The positive class is {in_markdown(in_words(positive))}."


def _budget_left(release: Release, account: Account) -> str:
    """What is left of the dataset's budget after this release, in Markdown, its name escaped."""
    balance = balance_after(account, release.release_id)
    if balance is None:
        return "The dataset's account is in the ledger: `dpbo budget`."
    if math.isinf(balance.limit):
        return "The dataset was declared public: nothing limits what is spent on it."
    tighter = release.guarantee.epsilon > balance.spent
    why = (
        " (less than this release alone promises, since all are composed together at the cap's δ)"
        if tighter
        else ""
    )
    return (
        f"After this release ε {balance.spent:.4g} of {balance.limit:g} is spent on "
        f"{in_markdown(release.dataset)}{why}, and **{balance.remaining:.4g}** is left; `dpbo budget` says what it "
        "is now."
    )
