"""What a run's page in MLflow opens with: the certificate in short, for whoever was not there.

It answers five questions in this order: what came out and how sure is it, what was tuned, what may be concluded
about a person, what is left of the budget, how is the model used. The picture is the run's own artifact.
"""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from dpbo.tasks.reporting.certificate_words import meaning, rests, values_shown
from dpbo.tasks.reporting.literal import in_markdown
from dpbo_core.accounting.accounts import Account
from dpbo_core.accounting.balance import balance_after
from dpbo_core.privacy.release import Release

NOTE_TAG = "mlflow.note.content"  # which MLflow renders above a run's numbers
FIRST = ("trajectory.png", "release.png", "evaluation.png")  # the picture that shows the release itself


def run_note(release: Release, account: Account, run_id: str, pictures: Iterable[Path], *, model: bool) -> str:
    """Markdown, in which nothing that people chose is markup.

    Args:
        release: recorded.
        account: its dataset's.
        run_id: of the run that shows it.
        pictures: the run's, by the names of their files.
        model: whether the run has a final model.
    """
    return "\n\n".join(_paragraphs(release, account, run_id, [path.name for path in pictures], model=model))


def _paragraphs(
    release: Release, account: Account, run_id: str, pictures: list[str], *, model: bool
) -> Iterator[str]:
    values = list(values_shown(release))
    if values:
        rows = (
            [name for name, _ in values],
            ["---"] * len(values),
            [f"**{in_markdown(text)}**" for _, text in values],
        )
        names, rule, numbers = rows
        yield "\n".join(f"| {' | '.join(row)} |" for row in ([in_markdown(name) for name in names], rule, numbers))
    yield f"**What was {'measured' if 'metrics' in release.value else 'tuned'}.** {_tuned(release)}"
    guarantee = f"{release.guarantee.in_words()} {meaning(release)}"
    yield f"**What may be concluded about a person.** {in_markdown(guarantee)}"
    yield f"**What that rests on.** {in_markdown(' '.join(rests(release)))}"
    yield f"**What is left.** {_left(release, account)}"
    if model:
        yield (
            "**How to use the model.** It is trained on the public training set at what was chosen, and says "
            "nothing more of a person. `rows` is a data frame with the training set's columns. "
            "It loads where dpbo is not installed."
        )
        yield f"```python\nimport mlflow\n\nmodel = mlflow.pyfunc.load_model({f'runs:/{run_id}/model'!r})\n" + (
            "model.predict(rows)\n"
            'model.predict(rows, params={"predict_method": "predict_proba"})  # where the model has it\n```'
        )
    yield (
        "**Check it.** The artifact `release.html` is the certificate with every draw; `dpbo verify release.json` "
        "recomputes ε and δ from the release alone."
    )
    yield from (
        f"![{name.removesuffix('.png')}](get-artifact?path=plots%2F{name}&run_uuid={run_id})"
        for name in FIRST
        if name in pictures
    )


def _tuned(release: Release) -> str:
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
    return f"{of}{over}, {whose}, by {method}{candidates}{steps}."


def _left(release: Release, account: Account) -> str:
    balance = balance_after(account, release.release_id)
    if balance is None:
        return "The dataset's account is in the ledger: `dpbo budget`."
    if math.isinf(balance.limit):
        return "The dataset was declared public: nothing limits what is spent on it."
    return (
        f"After this release ε {balance.spent:.4g} of {balance.limit:g} is spent on "
        f"{in_markdown(release.dataset)}, and {balance.remaining:.4g} is left; `dpbo budget` says what it is now."
    )
