"""Algorithm 3 as printed, as a flow: where steps may train, and that nothing shows what a step trained."""

import numpy as np
import pytest
import tomli_w
from test_flow import flow_runs, logs, stem, task_runs, terminal  # noqa: F401  a fixture
from worlds import PATH_ACCEPTS, PATHS

from dpbo.flows.serve import Schedule, serve
from dpbo.flows.stores import Stores
from dpbo.flows.tune import tune_privately
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods.lipschitz import LipschitzSearch
from dpbo_core.study import StudySpec

pytestmark = pytest.mark.usefixtures("prefect_server")
N, STEPS = 5, 4


@pytest.fixture
def studies(here, tables):
    """form → a study of it on files whose labels are (or, with `turned`, are not) what the first column says."""
    rng = np.random.default_rng(1)
    X, noise = rng.normal(size=(120, 2)), rng.normal(size=120)
    y = (X[:, 0] + 0.5 * noise > 0).astype(int)

    def table(name, rows, labels):
        lines = [f"{a:.4f},{b:.4f},{label}" for (a, b), label in zip(X[rows], labels[rows], strict=True)]
        (here / name).write_text("\n".join(["a,b,ill", *lines]) + "\n")

    table("train.csv", slice(60), y)
    table("straight.csv", slice(60, None), y)
    table("turned.csv", slice(60, None), 1 - y)

    def of(form, records="straight", name="trial"):
        tables["study"] |= {"name": name, "method": "lipschitz", "accepts": list(PATH_ACCEPTS)}
        tables["privacy"]["dataset"] = records
        tables["data"] = {
            "training": "train.csv", "validation": f"{records}.csv", "n_validation": 60, "target": "ill"
        }  # fmt: skip
        tables["space"]["lambda"]["points"], tables["search"]["steps"] = N, STEPS
        return StudySpec.from_dict(tables | {"method": PATHS[form]})

    return of


@pytest.fixture
def own_server(monkeypatch):
    """As if this command had started the server that there is."""
    monkeypatch.setattr("dpbo.flows.private_flow.is_temporary", lambda: True)


def entries():
    return [entry for account in PrivacyLedger(Stores().ledger).accounts() for entry in account.entries]


def test_on_a_server_that_was_there_before_steps_that_train_are_refused_before_the_charge(studies, here):
    """Its page and its database show how long each step took. Without Prefect nobody sees that."""
    with pytest.raises(StudyInvalid, match="did not start"):
        tune_privately(studies("lipschitz_step"))
    assert entries() == []
    released = tune_privately.fn(studies("lipschitz_step")).result.release  # as --direct calls it
    assert released.guarantee.assumptions == PATH_ACCEPTS
    assert len(entries()) == 1
    assert tune_privately(studies("lipschitz_step")).result.release == released  # a replay has no steps
    assert tune_privately(studies("lipschitz_ahead", name="ahead")).result.release.value["score"] is not None
    (here / "study.toml").write_text(tomli_w.dumps(studies("lipschitz_step", name="nightly").to_dict()))
    with pytest.raises(StudyInvalid, match="did not start"):
        serve(here / "study.toml", Schedule("0 2 * * *", None, 1, trust=False), register=False)


@pytest.mark.parametrize("form", PATHS)
def test_no_task_says_which_candidate_it_trained(studies, form, own_server, monkeypatch):
    """Two data sets whose paths differ leave the same names, counts and states; and no λ in any of it."""
    paths, honest = [], LipschitzSearch.finish

    def finish(self, noise):
        paths.append(self._bo.visited)
        return honest(self, noise)

    monkeypatch.setattr(LipschitzSearch, "finish", finish)
    seen = []
    for records in ("straight", "turned"):
        tuned = tune_privately(studies(form, records, name=f"{form}-{records}"))
        run = flow_runs("tune privately")[0]
        tasks = task_runs(run)
        public = "train candidates" if form == "lipschitz_ahead" else "try out trainings"
        assert sorted(task.name for task in tasks if task.name.startswith("step ")) == [
            f"step {step} of {STEPS}" for step in range(1, STEPS + 1)
        ]
        assert sum(stem(task.name) == public for task in tasks) == (N if form == "lipschitz_ahead" else 1)
        assert [message for message in logs(run) if "lambda" in message] == []
        seen.append(
            (
                sorted((stem(task.name), task.state.name, sorted(task.tags)) for task in tasks),
                sorted(tuned.result.release.to_json()["facts"]),
            )
        )
    assert paths[0] != paths[1]
    assert seen[0] == seen[1]
