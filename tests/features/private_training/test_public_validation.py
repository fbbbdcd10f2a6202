"""A search whose validation records are public: scores are exact and cost nothing."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
import tomli_w
from test_own_trainer import TRAINING, VALIDATION, here, in_this_process, search  # noqa: F401  a fixture
from test_own_trainer_study import CAP, TABLES, study, tables  # noqa: F401  a fixture

from dpbo import Declared, DpSgd, price
from dpbo.features.private_training.trial_study import TrialStudy
from dpbo_core.errors import AssumptionNotAccepted, CertificateFalse, PolicyRefused, StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.study.query import QueryContext
from dpbo_core.theorems.selection_price import pure_selection_epsilon

ACCEPTS = ("declared_cost", "contained_elsewhere", "public_validation")
ZERO_OUT = NeighboringRelation.ZERO_OUT


def public(**others):
    return search(public_validation=True, accepts=ACCEPTS, **others)


def test_the_released_score_is_the_models_exact_one(monkeypatch):
    in_this_process(monkeypatch)
    found = public(run=1, trials=1).fit(TRAINING, VALIDATION)
    X, y = VALIDATION
    assert found.score == pytest.approx(np.mean(found.model.predict(X) == y), abs=1e-12)
    (spend,) = found.release.spends
    assert (spend.noise_scale, spend.sensitivity) == (0.0, 0.0)
    assert "public_validation" in found.guarantee.assumptions
    assert "for each record of the training set (replace one)" in found.guarantee.in_words()
    assert found.guarantee.one_protected == "any one record of the training set"
    assert found.release.facts["options"]["people"] == "public validation"
    assert "the score is exact, of public records" in " ".join(str(found).split())
    low, high = found.interval
    assert low <= found.score <= high
    assert public(run=1, trials=1).fit(TRAINING, VALIDATION).replayed


def test_all_of_epsilon_pays_for_the_trainings():
    pure = public()._price(60, 40, disjoint=False)
    assert pure.score is None
    one = 1.0 / pure.noises[0]
    assert pure.epsilon == pytest.approx(pure_selection_epsilon(one, pure.terms.count), rel=1e-12)
    assert 3.99 < pure.epsilon <= 4.0
    assert one > 1.0 / search()._price(60, 40, disjoint=False).noises[0]
    family = DpSgd(sampling_probability=0.25, steps=8)
    sampled = public(training=family, delta=1e-5, budget=(4.0, 1e-5), neighbours="zero_out", run=3, trials=2)
    found = sampled._price(60, 40, disjoint=False)
    event = family.event(found.noises[0], {}, 60)
    assert found.epsilon <= 4.0 * (1.0 + 1e-9)
    alone = price(event, trials=1, delta=1e-5, neighbours="zero_out")
    assert found.level == pytest.approx(alone, rel=0.01)


def test_a_declared_cost_is_priced_without_a_score():
    fine = public(training=Declared(epsilon=1.0, delta=0.0), epsilon=3.0, budget=(3.0, 0.0))
    paid = fine._price(60, 40, disjoint=False)
    assert paid.score is None
    assert paid.epsilon == pytest.approx(pure_selection_epsilon(1.0, paid.terms.count))
    assert fine.planned(60, 40, disjoint=False, divided=False).to_json()["one_training"] is None
    with pytest.raises(StudyInvalid, match="does not pay"):
        public(training=Declared(epsilon=2.99, delta=0.0), epsilon=3.0)._price(60, 40, disjoint=False)


def test_public_records_are_stated_and_are_another_search(monkeypatch):
    in_this_process(monkeypatch)
    with pytest.raises(AssumptionNotAccepted, match="public_validation"):
        search(public_validation=True).fit(TRAINING, VALIDATION)
    for given in ((TRAINING,), (TRAINING, TRAINING), (TRAINING, (*TRAINING,))):
        with pytest.raises(StudyInvalid, match="without validation_data of its own"):
            public().fit(*given)
    keys = {made._key(made._price(60, 40, disjoint=False), divided=False) for made in (public(), search())}
    assert len({key.fingerprint for key in keys}) == 2


def test_a_plan_and_a_certificate_say_that_the_score_is_exact(monkeypatch):
    in_this_process(monkeypatch)
    made = public(n_training=60, n_validation=40)
    assert "exact: on a share of 40 public records" in str(made.plan())
    assert made.plan().to_json()["score_noise"] == 0.0
    release = made.fit(TRAINING, VALIDATION).release
    read = read_certificate(json.loads(json.dumps(release.to_json())), CERTIFIED)
    assert recompute(read, CERTIFIED).epsilon == 4.0
    hidden = replace(release.guarantee, assumptions=("declared_cost",))
    with pytest.raises(CertificateFalse, match="guarantees what they cannot keep"):
        recompute(replace(read, guarantee=hidden), CERTIFIED)


def test_a_certificate_is_false_where_its_noise_is_not_that_of_its_validation_records(monkeypatch):
    """Noise 0 is of public validation records alone; and who those records are is one of three statements."""
    in_this_process(monkeypatch)
    private = search().fit(TRAINING, VALIDATION).release.to_json()
    exact = public(edition="2", dataset="open").fit(TRAINING, VALIDATION).release.to_json()
    for release in (private, exact):
        recompute(read_certificate(release, CERTIFIED), CERTIFIED)
    (spend,) = private["spends"]
    named = [{"options": {**exact["facts"]["options"], "people": people}} for people in ("any", "nobody")]
    for forged in (
        *({**private, "spends": [{**spend, "noise_scale": 0.0, "sensitivity": moved}]} for moved in (0.0, 1 / 40)),
        {**private, "spends": [{**spend, "sensitivity": 0.0}]},
        {**exact, "spends": [{**exact["spends"][0], "noise_scale": 0.1}]},
        *({**exact, "facts": {**exact["facts"], **options}} for options in named),
    ):
        with pytest.raises((StudyInvalid, CertificateFalse)):
            recompute(read_certificate(forged, CERTIFIED), CERTIFIED)


def test_a_study_file_says_that_its_validation_file_is_public(tmp_path):
    made = TrialStudy(tables(data={"public_validation": True}), tmp_path)
    assert made.trials.public_validation
    assert [source.role for source in made.sources()] == ["public records", "training records"]
    bundled = {"sensitive": "training", "source": "digits", "public_validation": True}
    with pytest.raises(StudyInvalid, match="public_validation"):
        TrialStudy({**TABLES, "data": bundled}, tmp_path)


def test_a_sensitive_file_is_refused_as_public_validation_records(study, dpbo, monkeypatch):  # noqa: F811
    """Nor may a file that was scored on exactly be protected afterwards."""
    in_this_process(monkeypatch)
    allow = ("budget", "allow", "--as", "score")
    assert dpbo(*allow[:2], "clinic", "own_trainers:laplace", *allow[2:])[0] == 0
    assert dpbo("tune", study, "--direct")[0] == 0
    assert dpbo("budget", "set", "open", *CAP, "--accept", "public_validation")[0] == 0
    assert dpbo(*allow[:2], "open", "own_trainers:laplace", *allow[2:])[0] == 0
    (study.parent / "other.csv").write_bytes((study.parent / "train.csv").read_bytes())
    data = {"public_validation": True, "training": "other.csv"}
    asked = tables(study={"accepts": list(ACCEPTS)}, privacy={"dataset": "open"}, data=data)
    study.write_text(tomli_w.dumps(asked))
    code, out, err = dpbo("tune", study, "--direct")
    assert (code, out) == (3, "")
    assert "would be read as public" in err


def test_the_training_file_is_refused_as_public_validation_records(study, dpbo, monkeypatch):  # noqa: F811
    done = in_this_process(monkeypatch)
    assert dpbo("budget", "set", "open", *CAP, "--accept", "public_validation")[0] == 0
    assert dpbo("budget", "allow", "open", "own_trainers:laplace", "--as", "score")[0] == 0
    data = {"public_validation": True, "validation": "train.csv", "n_validation": 60}
    asked = tables(study={"accepts": list(ACCEPTS)}, privacy={"dataset": "open"}, data=data)
    study.write_text(tomli_w.dumps(asked))
    code, out, err = dpbo("tune", study, "--direct")
    assert (code, out, done) == (3, "", [])
    assert "train.csv" in err


@pytest.mark.parametrize("inside", ["t/part.csv", "t/deeper/part.csv", "link.csv", "elsewhere.csv"])
def test_a_file_of_a_training_folder_is_refused_as_public_validation_records(study, monkeypatch, inside):  # noqa: F811
    """By its path, by another link to it, or by a link in the folder. The ledger asks it of other studies too."""
    done, folder = in_this_process(monkeypatch), study.parent
    part = folder / (inside if inside.startswith("t/") else "t/part.csv")
    part.parent.mkdir(parents=True)
    (folder / "validation.csv").rename(part)
    if inside == "link.csv":
        os.link(part, folder / inside)
    if inside == "elsewhere.csv":
        part.rename(folder / inside)
        part.symlink_to(folder / inside)
    monkeypatch.setattr(TrialStudy, "check_code", lambda self, ledger: None)
    ledger = PrivacyLedger(f"sqlite:///{folder}/other.db")
    for dataset in ("clinic", "open"):
        cap = PrivacyBudget.of(dataset, epsilon=4.0, delta=0.0, relation=ZERO_OUT, accepts=ACCEPTS)
        ledger.set_budget(cap)

    def tuned(dataset, **data):
        asked = tables(study={"accepts": list(ACCEPTS)}, privacy={"dataset": dataset}, data=data)
        return TrialStudy(asked, folder).search(QueryContext(ledger))

    with pytest.raises(StudyInvalid, match="is in t, and is not public"):
        tuned("clinic", training="t", validation=inside, public_validation=True)
    assert done == []
    if inside.startswith("t/"):
        tuned("clinic", training="t", validation="train.csv", n_validation=60)
        (folder / "other.csv").write_bytes((folder / "train.csv").read_bytes())
        with pytest.raises(PolicyRefused, match="would be read as public"):
            tuned("open", training="other.csv", validation=inside, public_validation=True)


def test_validation_records_are_one_file(study):  # noqa: F811
    """A folder that is handed over unread has no records that could be scored one by one."""
    (study.parent / "v").mkdir()
    with pytest.raises(StudyInvalid):
        TrialStudy(tables(data={"validation": "v"}), study.parent).check_files()
