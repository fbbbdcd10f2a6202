"""A model compared with a champion: one spend, the sensitivity of both sums, covering intervals, plain verdicts."""

import hashlib
import itertools
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.tree import DecisionTreeClassifier
from test_evaluation import of_files

from dpbo_core import evaluate_study
from dpbo_core.errors import AssumptionNotAccepted, CertificateFalse, StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.privacy.release import Release, bounded_score, score_interval
from dpbo_core.report import BETTER, UNSURE, WORSE
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.report.comparison import OpenComparison
from dpbo_core.report.comparison_query import paired, verdict
from dpbo_core.report.difference import PairedSums, detectable
from dpbo_core.report.evaluated_model import estimator_of_file
from dpbo_core.study import StudySpec
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import run_study

M = 400
BRIER = {"estimator": "sklearn.linear_model.LogisticRegression", "score": "brier"}
NOISELESS = InjectedNoise(np.random.default_rng(0), factor=0.0)


def clinic(folder, *, column=None, **more):
    """The files of a study whose validation file also holds another model's predictions, and its tables."""
    rng, made = np.random.default_rng(1), {}
    for name, n in (("train", 300), ("validation", M)):
        x = rng.normal(size=(n, 2))
        made[name] = pd.DataFrame(
            {
                "who": np.arange(n) // 2,
                "sex": "f",
                "a": x[:, 0],
                "b": x[:, 1],
                "ill": (x[:, 0] - x[:, 1] + 0.5 * rng.normal(size=n) > 0).astype(int),
            }
        )
    if column is not None:
        made["validation"]["old"] = column(made["validation"])
    for name, frame in made.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    tables = of_files(m=M, **more)
    del tables["budget"]
    tables["study"]["accepts"] = []
    tables["data"]["ignore"] = ["who", "sex", "old"]
    tables["model"] = {"estimator": "logistic", "score": "accuracy"} | more.get("model", {})
    tables["evaluation"] = {
        "epsilon": 1.0,
        "against": "column:old",
        "accepts": ["public_models", "rowwise_predictions"],
    } | more.get("evaluation", {})
    if tables["model"]["estimator"] != "logistic":
        tables["space"] = {"C": {"low": 0.1, "high": 10.0, "log": True, "points": 3}}
    return tables


def weak(frame):
    return (frame["a"] > 0).astype(int)


@pytest.fixture
def ledger(tmp_path):
    made = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    accepts = ("public_models", "rowwise_predictions")
    relation = NeighboringRelation.REPLACE_ONE
    made.set_budget(PrivacyBudget.of("clinic", epsilon=20.0, delta=0.0, relation=relation, accepts=accepts))
    return made


def tuned(tables, ledger, folder):
    spec = StudySpec.from_dict(tables)
    return spec, run_study(spec, ledger=ledger, folder=folder).release


def compared(spec, ledger, folder, source=None):
    return evaluate_study(spec, ledger=ledger, folder=folder, source=source).release


def test_a_comparison_is_one_spend_and_one_release(tmp_path, ledger):
    spec, _ = tuned(clinic(tmp_path, column=weak), ledger, tmp_path)
    first = compared(spec, ledger, tmp_path)
    entries = ledger.accounts("clinic")[0].entries
    assert [entry.study for entry in entries] == ["clinic", "clinic/comparison"]
    assert first.guarantee.epsilon == 1.0
    assert first.guarantee.assumptions == ("rowwise_predictions",)
    (spend,) = first.spends
    assert (spend.sensitivity, spend.noise_scale) == (2.0, pytest.approx(2.0))
    assert compared(spec, ledger, tmp_path) == first
    assert len(ledger.accounts("clinic")[0].entries) == 2
    again = spec.replace(evaluation=spec.evaluation.replace(edition="2"))
    assert compared(again, ledger, tmp_path).release_id != first.release_id  # who asks twice pays twice
    assert len(ledger.accounts("clinic")[0].entries) == 3
    assert read_certificate(first.to_json(), CERTIFIED) == first
    recompute(first, CERTIFIED)
    told = {**first.value, "difference": {**first.value["difference"], "verdict": "better", "value": 0.5}}
    with pytest.raises(CertificateFalse):
        recompute(replace(first, value=told), CERTIFIED)


@pytest.mark.parametrize("model", [{}, BRIER], ids=["accuracy", "brier"])
def test_the_difference_is_that_of_the_records_scores(tmp_path, model):
    """Without noise: each record's score of the final model, less that of the column."""
    spec = StudySpec.from_dict(clinic(tmp_path, column=weak, model=model))
    own, plain = PrivacyLedger(f"sqlite:///{tmp_path / 'injected.db'}"), spec.replace(budget=None)
    own.set_budget(PrivacyBudget.without_limit("clinic"))
    release = run_study(plain, ledger=own, folder=tmp_path, source=NOISELESS).release
    found = compared(plain, own, tmp_path, NOISELESS)
    final = FinalModel.of_release(plain, tmp_path, release)
    frame = pd.read_csv(tmp_path / "validation.csv")
    if model:
        scores = [1.0 - (p - frame["ill"]) ** 2 for p in (final.predict_proba(frame)[:, 1], frame["old"])]
    else:
        scores = [(p == frame["ill"]).astype(float) for p in (final.predict(frame), frame["old"])]
    wanted = float((scores[0] - scores[1]).mean())
    shown = found.value["difference"]
    assert shown["value"] == pytest.approx(wanted, abs=1e-4 if model else 1e-12)
    assert shown["noise_interval"][0] < wanted < shown["noise_interval"][1]
    assert shown["interval"][0] < shown["noise_interval"][0]


def test_one_record_moves_both_sums_by_their_sensitivity_at_most(tmp_path, ledger):
    spec, _ = tuned(clinic(tmp_path, column=weak, model=BRIER), ledger, tmp_path)
    opened = OpenComparison.of(Run.of(spec, QueryContext(ledger, tmp_path)), None, None)
    counter, L = opened.counter, opened.ask.levels
    cells = [0, 1, 1 + L // 2, 1 + L, 2 + L, 1 + 2 * L]
    worst = 0
    for one, other in itertools.product(cells, repeat=2):
        sums = [counter.sums(np.bincount([cell], minlength=counter.size), 10**9) for cell in (one, other)]
        worst = max(worst, int(np.abs(sums[0] - sums[1]).sum()))
    assert worst == opened.ask.moved == 2 * L


def test_a_person_counts_once_and_a_saved_model_is_a_champion(tmp_path, ledger):
    tables = clinic(tmp_path, column=weak)
    tables["privacy"] |= {"person": "who", "dataset": "people"}
    tables["budget"] = {"epsilon": 20.0}
    tables["study"]["accepts"] = ["public_models"]
    tables["data"] = {**tables["data"], "n_persons": M // 2, "ignore": ["sex", "old"]}
    del tables["data"]["n_validation"]
    spec, release = tuned(tables, ledger, tmp_path)
    FinalModel.of_release(spec, tmp_path, release).save(tmp_path / "champion")
    saved = spec.replace(evaluation=spec.evaluation.replace(against="champion"))
    found = compared(saved, ledger, tmp_path)
    assert found.guarantee.assumptions == ("public_models",)
    assert found.guarantee.relation == "replace_one_person"
    assert found.spends[0].noise_scale == pytest.approx(2.0)
    difference = found.value["difference"]
    assert abs(difference["value"]) * M / 2 < 2.0 * 25  # the same model: noise alone
    assert difference["interval"][0] < 0.0 < difference["interval"][1]
    assert difference["verdict"] == UNSURE


def test_what_cannot_be_compared_is_refused_before_any_charge(tmp_path, ledger):
    spec, _ = tuned(clinic(tmp_path, column=weak), ledger, tmp_path)
    wrong = {
        "does not accept": spec.replace(evaluation=spec.evaluation.replace(accepts=())),
        "no final model": spec.replace(evaluation=spec.evaluation.replace(against="nowhere")),
        "lacks": spec.replace(evaluation=spec.evaluation.replace(against="column:new")),
    }
    for words, study in wrong.items():
        with pytest.raises((StudyInvalid, AssumptionNotAccepted), match=words):
            compared(study, ledger, tmp_path)
    assert "clinic/comparison" not in [entry.study for entry in ledger.accounts("clinic")[0].entries]


def test_where_records_are_not_independent_the_verdict_is_of_these_records_alone(tmp_path, ledger):
    tables = clinic(tmp_path, column=weak)
    tables["privacy"] |= {"person": "who", "max_records_per_person": 2, "dataset": "people"}
    tables["budget"], tables["study"]["accepts"] = {"epsilon": 20.0}, ["rowwise_predictions"]
    spec, _ = tuned(tables, ledger, tmp_path)
    found = compared(spec, ledger, tmp_path)
    assert found.value["difference"]["interval"] is None
    assert found.value["difference"]["verdict"] != BETTER  # the champion of a registry moves by that word alone
    assert found.spends[0].noise_scale == pytest.approx(4.0)


def test_words_follow_the_interval():
    assert verdict([0.001, 0.02], None) == BETTER
    assert verdict([-0.02, -0.001], None) == WORSE
    assert verdict([-0.004, 0.02], 0.005) == "not worse by more than 0.005"
    assert verdict([-0.006, 0.02], 0.005) == UNSURE
    assert verdict([-0.006, 0.02], None) == UNSURE


def test_tails_are_those_of_the_law():
    """Of 6 units, by enumeration: the trinomial law convolved with the noise."""
    b, n, theta, psi = 1.5, 6, 0.2, 0.5
    a, up, down = math.exp(-1.0 / b), (psi + theta) / 2.0, (psi - theta) / 2.0
    law = Counter()
    for plus, minus in itertools.product(range(n + 1), repeat=2):
        if plus + minus <= n:
            ways = math.factorial(n) // (
                math.factorial(plus) * math.factorial(minus) * math.factorial(n - plus - minus)
            )
            chance = ways * up**plus * down**minus * (1.0 - psi) ** (n - plus - minus)
            for z in range(-80, 81):
                law[plus - minus + z] += chance * (1.0 - a) / (1.0 + a) * a ** abs(z)
    sums = PairedSums(n, b, 0.0, 0.0)
    assert 0.17 < PairedSums(200, 2.0, 0, 20)._exact_psi(1.0) < 0.18  # N is 20 or less with probability 0.008
    for at in (-9, -2, 0, 1, 3, 11):
        wanted = sum(p for s, p in law.items() if s >= at)
        assert sums._tails(np.array([theta]), np.array([psi]), at)[0] == pytest.approx(wanted, abs=1e-9)


@pytest.mark.slow
def test_intervals_hold_the_truth():
    """300 draws of two laws each: of 90%, fewer than 80% would be missed by chance with probability below 1e-7."""
    rng, draws, a = np.random.default_rng(5), 300, math.exp(-0.5)
    for up, down in ((0.3, 0.1), (0.05, 0.05)):
        counts = rng.multinomial(200, [up, down, 1 - up - down], size=draws)
        noises, inside = rng.geometric(1 - a, size=(draws, 4)), 0
        for (plus, minus, _), z in zip(counts, noises, strict=True):
            low, high = PairedSums(200, 2.0, plus - minus + z[0] - z[1], plus + minus + z[2] - z[3]).interval
            inside += low <= up - down <= high
        assert inside >= 0.8 * draws


def test_bounded_differences_are_covered_and_power_grows_with_the_records():
    exact, bound = (PairedSums(2000, 2.0, 40, 200, exact).interval for exact in (True, False))
    assert bound[0] < exact[0] < 0.02 < exact[1] < bound[1]
    few, many = (detectable(n, 4.0, 0.1, exact=True) for n in (500, 2000))
    assert 0.015 < many < 0.025 < few < 0.06
    assert detectable(20, 2000.0, 0.1, exact=True) == 1.0
    assert paired([8192, 8192], 100, 8192.0, 1, 4096) == PairedSums(100, 2.0, 2.0, 2.0, exact=False, step=2.0**-12)


def test_a_displayed_score_stays_in_its_range():
    release = Release({"score": 1.103, "interval": [0.9, 1.0]}, None, (), "s", "1", "m", "d", {"score_range": 1.0})
    assert (bounded_score(release), score_interval(release)) == (1.0, (0.9, 1.0))
    assert bounded_score(replace(release, value={"score": -0.2})) == 0.0
    assert score_interval(replace(release, value={"score": None})) is None


def test_an_estimator_in_a_skops_file_is_a_champion(tmp_path, ledger):
    """On its own columns, in its own order; without noise the difference is that of both models' predictions."""
    tables = clinic(tmp_path, evaluation={"against": "old.skops"})
    public, sensitive = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("train", "validation"))
    old = DecisionTreeClassifier(max_depth=1, random_state=0).fit(public[["b", "a"]], public["ill"])
    skops.io.dump(old, tmp_path / "old.skops")
    spec = StudySpec.from_dict(tables)
    own = PrivacyLedger(f"sqlite:///{tmp_path / 'injected.db'}")
    own.set_budget(PrivacyBudget.without_limit("clinic"))
    release = run_study(spec, ledger=own, folder=tmp_path, source=NOISELESS).release
    found = compared(spec, own, tmp_path, NOISELESS)
    new = FinalModel.of_release(spec, tmp_path, release).predict(sensitive)
    was = old.predict(sensitive[["b", "a"]])
    wanted = float(((new == sensitive["ill"]) * 1.0 - (was == sensitive["ill"])).mean())
    assert found.value["difference"]["value"] == pytest.approx(wanted, abs=1e-12)
    assert found.guarantee.assumptions == ("public_models",)
    key = found.facts["champion_digest"]
    later = DecisionTreeClassifier(max_depth=2).fit(public[["b", "a"]], public["ill"])
    skops.io.dump(later, tmp_path / "old.skops")
    other = compared(spec, own, tmp_path, NOISELESS)  # another champion is another question, and is paid for
    assert other.facts["champion_digest"] != key
    assert len(own.accounts("clinic")[0].entries) == 3
    swapped = DecisionTreeClassifier(max_depth=3).fit(public[["b", "a"]], public["ill"])
    whole = (tmp_path / "old.skops").read_bytes()

    def read_and_swapped(self):
        content = read(self)
        if self.name == "old.skops":
            skops.io.dump(swapped, self)
        return content

    read = Path.read_bytes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", read_and_swapped)
        loaded, digest = estimator_of_file(spec, tmp_path, tmp_path / "old.skops")
    assert digest == hashlib.sha256(whole).hexdigest() == other.facts["champion_digest"]
    assert (loaded.predict(sensitive) == later.predict(sensitive[["b", "a"]])).all()
    assert (loaded.predict(sensitive) != swapped.predict(sensitive[["b", "a"]])).any()
    named = public["ill"].map({0: "no", 1: "yes"})
    for refused in (
        DecisionTreeClassifier().fit(public[["a", "b"]].to_numpy(), public["ill"]),  # no names
        DecisionTreeClassifier().fit(public[["a", "who"]], public["ill"]),  # a column that the study leaves out
        DecisionTreeClassifier().fit(public[["a", "b"]], named),  # other labels
    ):
        skops.io.dump(refused, tmp_path / "old.skops")
        with pytest.raises(StudyInvalid, match="cannot be given the study's records"):
            compared(spec, own, tmp_path, NOISELESS)
    assert len(own.accounts("clinic")[0].entries) == 3
