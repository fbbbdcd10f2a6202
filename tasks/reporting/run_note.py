"""What a run's page in MLflow opens with: the release's document, then what is particular to MLflow."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from dpbo.tasks.reporting.budget_alert import account_line
from dpbo.tasks.reporting.escaping import embedded
from dpbo.tasks.reporting.logged_model import FOLDER
from dpbo.tasks.reporting.logged_numbers import metrics
from dpbo.tasks.reporting.markdown_page import markdown
from dpbo.tasks.reporting.release_document import release_document
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.privacy.release import Release
from dpbo_core.study.final_training import FinalModel

FIRST = ("trajectory.png", "release.png", "evaluation.png")  # the picture that shows the release itself


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
    document = release_document(release, budget=account_line(account, study=release.study), model=model)
    shown = [path.name for path in pictures]
    embed = "\n\n".join(embedded(name, run_id) for name in FIRST if name in shown)
    return "\n\n".join(
        (markdown(document, pictures=embed, n_tables=1), *_of_mlflow(release, account, run_id, model))
    )


def _of_mlflow(release: Release, account: Account, run_id: str, model: FinalModel | None) -> Iterator[str]:
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
        "**Where is the proof?** The artifact `release.html` is the certificate with every draw and the pictures; "
        "`dpbo verify release.json` recomputes ε and δ from the release alone."
    )
    yield f"**What are the metrics below?** {_metrics(release, account)}"


def _metrics(release: Release, account: Account) -> str:
    keys = [metric.key for metric in metrics(release, account)]
    searched = ", and where the search took that candidate's score to be, `posterior`"
    sentences = {
        "release": "`release/…` is the score that was released; the parameter `score.interval` is its interval",
        "score": "`score` is in the metric's unit, and `score/…` has the ends of its 90% interval and a constant "
        "answer's score",
        "budget": "`budget/…` is the dataset's ε that is spent after this study, and what is left",
        "trajectory": "`trajectory/…` has numbers for every step, of which this page shows the last: its noised "
        f"score{searched if 'trajectory/posterior' in keys else ''}",
        "evaluation": "`evaluation/…` are the figures of the report",
    }
    there = {key.partition("/")[0] for key in keys}
    return "; ".join(text for group, text in sentences.items() if group in there) + "."
