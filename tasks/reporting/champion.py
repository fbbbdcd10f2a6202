"""The alias `champion` of a registered model: which version serves, decided by what was released and no more.

* `dpbo tune --register` moves it to the version of the release it tuned, whatever served before: that was asked.
* `dpbo evaluate --register` notes the report's figure on the version of the model that it evaluated, and moves the
  alias there where the interval of the figure's known noise lies above the champion's. Where the two overlap, or
  where the champion has no such figure, it stays: then nothing that was released says which is better.
"""

from typing import Any

from dpbo.tasks.reporting.logged_model import CHAMPION, registered_name, versions
from dpbo.tasks.reporting.mlflow_lookup import RELEASE_TAG, publishing
from dpbo.tasks.reporting.mlflow_store import open_store
from dpbo_core.errors import StudyInvalid
from dpbo_core.privacy.release import Release
from dpbo_core.queries.evaluation import RANKED

NOTED = "dpbo.evaluated."

Ends = tuple[float, float]


def champion_after(tuned: Release, report: Release, tracking_uri: str) -> str:
    """Note `report`'s noise interval on the registered model of `tuned`, which becomes the `champion` if there is
    none or its interval lies above the champion's; says which, in a sentence.

    Raises:
        StudyInvalid: the model is no registered version, or its report has no figure to compare.
    """
    with publishing(tracking_uri):
        return _champion_after(tuned, report, open_store(tracking_uri).client)


def _champion_after(tuned: Release, report: Release, client: Any) -> str:
    """Note `report` on the registered model of `tuned`, and move the alias if it is better; says which."""
    name = registered_name(tuned.study)
    own = next((one for one in versions(client, name) if one.tags.get(RELEASE_TAG) == tuned.release_id), None)
    if own is None:
        raise StudyInvalid(
            f"the evaluated model is no version of the registered model {name!r}",
            cause="it was tuned without --register",
            remedy="dpbo tune with --register makes it one, and spends nothing",
        )
    figure, ends = _figure(report)
    client.set_model_version_tag(name, own.version, NOTED + figure, f"{ends[0]!r} {ends[1]!r}")
    champion = _champion(client, name)
    if champion is not None and champion.version == own.version:
        return f"version {own.version} of {name!r} is the {CHAMPION} already"
    before = None if champion is None else _noted(champion, figure)
    if champion is None or (before is not None and ends[0] > before[1]):
        client.set_registered_model_alias(name, CHAMPION, own.version)
        return f"version {own.version} of {name!r} is the {CHAMPION} now, by its {figure}"
    why = f"has no {figure} to compare with" if before is None else f"may be as good by its {figure}"
    return f"version {champion.version} of {name!r} stays the {CHAMPION}: it {why}"


def _figure(report: Release) -> tuple[str, Ends]:
    """The first metric of a report, among those that rank models, and its noise interval; refused without one."""
    metrics = report.value["metrics"]
    for name in RANKED:
        cell = metrics.get(name)
        if cell is not None and cell["noise_interval"] is not None:
            low, high = cell["noise_interval"]
            return name, (float(low), float(high))
    raise StudyInvalid(
        "the report has no figure to compare models by",
        cause=f"it is of a regression, or noise leaves nothing of {', '.join(RANKED)}",
        remedy=f"set the alias {CHAMPION} yourself, in MLflow",
    )


def _champion(client: Any, name: str) -> Any:
    """The model version that has the alias `champion`; None if there is none."""
    from mlflow.exceptions import MlflowException

    try:
        return client.get_model_version_by_alias(name, CHAMPION)
    except MlflowException:
        return None


def _noted(version: Any, figure: str) -> Ends | None:
    """The interval of `figure` noted on a model version; None if there is none."""
    words = version.tags.get(NOTED + figure, "").split()
    try:
        low, high = map(float, words)
    except ValueError:
        return None
    return low, high
