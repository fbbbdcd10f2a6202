"""A team's pipeline around a private tune: ingest, plan, tune, train, register.

    python examples/team_pipeline.py FOLDER

`tune_privately` is a subflow like any other. What goes in and out of it is public: the study, and the release.
"""

import sys
from pathlib import Path

from prefect import flow, get_run_logger, task

from dpbo import (
    FinalModel,
    PrivacyLedger,
    Release,
    StudySpec,
    advise_study,
    owners_terminal,
    read_study,
    tune_privately,
)
from dpbo.flows.stores import Stores
from dpbo.tasks.tuning import publish, train

STUDY = """\
[study]
name = "tumours"
method = "private_grid"
[privacy]
dataset = "clinic-a"
epsilon = 1.0
[budget]
epsilon = 3.0
delta = 1e-5
[data]
training = "train.csv"
validation = "validation.csv"
n_validation = 285
target = "malignant"
[model]
estimator = "logistic"
[space]
lambda = { low = 1e-4, high = 1.0, log = true, points = 12 }
"""


@task
def ingest(folder: str) -> str:
    """Two CSV files (every other record is sensitive) and the study; only the study's path comes back."""
    from sklearn.datasets import load_breast_cancer

    here = Path(folder)
    here.mkdir(parents=True, exist_ok=True)
    frame = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "malignant"})
    frame.iloc[0::2].iloc[:284].to_csv(here / "train.csv", index=False)
    frame.drop(frame.index[0::2][:284]).to_csv(here / "validation.csv", index=False)
    (here / "study.toml").write_text(STUDY, encoding="utf-8")
    return str(here / "study.toml")


@task
def plan(path: str) -> StudySpec:
    """The study under the method that costs least error for its price; opens no data."""
    study = read_study(path)
    best = advise_study(study).recommended
    return study if best is None or best == study.method else study.replace(method=best, options={})


@task
def good_enough(release: Release, model: FinalModel | None, least: float) -> bool:
    """A decision on released numbers is post-processing: it costs nothing."""
    return model is not None and (release.value.get("score") or 0.0) >= least


@flow(name="team pipeline")
def team_pipeline(folder: str = "team", least_score: float = 0.7) -> str:
    """Returns the release's id; the model is registered if its private score is high enough."""
    study = plan(ingest(folder))
    release = tune_privately(study, folder).result.release
    model = train(study, folder, release)
    if good_enough(release, model, least_score):
        stores = Stores()
        (account,) = PrivacyLedger(stores.ledger).accounts(study.privacy.dataset)
        publish(release, account, stores.tracking, model, True)
        get_run_logger().info("registered %s, edition %s", release.study, release.edition)
    return release.release_id


if __name__ == "__main__":
    with owners_terminal():  # you answer for the data, and run it yourself: it may open the cap and record the file
        print(team_pipeline(*sys.argv[1:2]))
