"""Algorithm 3 as printed, `lipschitz` with evaluate = "path": all of Λ trained ahead, or one model a step."""

import math
from pathlib import Path

import numpy as np
import pytest
from worlds import PATH_ACCEPTS, PATHS

from dpbo_core.errors import AssumptionNotAccepted, StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.methods.lipschitz import Lipschitz
from dpbo_core.models.linear import fit
from dpbo_core.models.scoring.in_memory import Objective
from dpbo_core.study import StudySpec
from dpbo_core.study.query import IfUseless, QueryContext
from dpbo_core.study.resolve import plan_study
from dpbo_core.study.run import Run
from dpbo_core.study.spec import read_study
from dpbo_core.study.tuning import check_first, open_study, run_study

LOW, HIGH, POINTS, STEPS = 0.5, 8.0, 4, 7  # more steps than candidates: one at least comes back


@pytest.fixture(params=["logistic", "hinge"])
def spec(tables, request):
    """The study by form, of few candidates; both forms have the assumption that one of them needs."""
    tables["model"] |= {"estimator": request.param, "steepness": 0.2}
    tables["space"]["lambda"] |= {"low": LOW, "high": HIGH, "points": POINTS}
    tables["search"]["steps"] = STEPS
    tables["study"] |= {"method": "lipschitz", "accepts": list(PATH_ACCEPTS)}
    return {form: StudySpec.from_dict(tables | {"method": options}) for form, options in PATHS.items()}


@pytest.fixture
def book(url):
    return PrivacyLedger(url)


@pytest.fixture
def trained(monkeypatch):
    """λ of every training, in order."""
    seen, honest = [], fit.minimise

    def counted(*arguments, **named):
        seen.append(named["regularization"])
        return honest(*arguments, **named)

    monkeypatch.setattr(fit, "minimise", counted)
    return seen


def quiet():
    return InjectedNoise(np.random.default_rng(0), 0.0)


def public(book, spec):
    """The study on a dataset declared public, where noise may be left out."""
    book.set_budget(PrivacyBudget.without_limit(spec.privacy.dataset))
    return spec.replace(budget=None)


def test_all_of_lambda_is_trained_before_the_charge_or_each_step_trains_one_model(spec, book, trained):
    ahead = open_study(Run.of(spec["lipschitz_ahead"], QueryContext(book)))
    assert len(trained) == len(set(trained)) == POINTS
    ahead.run()
    assert len(trained) == POINTS
    trained.clear()
    steps = open_study(Run.of(spec["lipschitz_step"].replace(edition="2"), QueryContext(book)))
    assert len(trained) == 1  # the trial, which costs nothing where it fails
    for step in range(1, STEPS + 1):
        assert steps.step() is None
        assert len(trained) == 1 + step
    assert len(set(trained[1:])) < STEPS  # so a model was trained again that had been trained before
    steps.finish()
    assert len(trained) == 1 + STEPS


def test_both_forms_score_the_same_models(spec, book):
    """To the last step of the grid, so that one may stand for the other."""
    scores = [
        run_study(public(book, one).replace(edition=form), ledger=book, source=quiet()).release.value["score"]
        for form, one in spec.items()
    ]
    assert scores[0] == scores[1] != 0.5


def fail(monkeypatch, error, where=lambda _: True):
    honest = fit.minimise

    def fails(*arguments, regularization, **named):
        if where(regularization):
            raise error
        return honest(*arguments, regularization=regularization, **named)

    monkeypatch.setattr(fit, "minimise", fails)


ERRORS = [StudyInvalid("a certificate of 0.1"), np.linalg.LinAlgError("singular"), MemoryError(), SystemExit(3)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_training_that_fails_in_a_step_scores_the_constant_and_raises_nothing(spec, book, monkeypatch, error):
    """All fail, or some; every step asks for one scoring, and the price and the release's form are the same."""
    scored, honest = [], Objective.evaluate

    def counted(self, model):
        total = honest(self, model)
        scored.append(total.expose())
        return total

    monkeypatch.setattr(Objective, "evaluate", counted)
    one = public(book, spec["lipschitz_step"])
    whole = run_study(one, ledger=book, source=quiet()).release
    for edition, where in (("all", lambda _: True), ("some", lambda value: value > 1.0)):
        run = open_study(Run.of(one.replace(edition=edition), QueryContext(book, source=quiet())))
        scored.clear()
        with monkeypatch.context() as patch:
            fail(patch, error, where)
            for _ in range(STEPS):
                assert run.step() is None
        release = run.finish().release
        assert len(scored) == STEPS
        assert 285 * 2**23 in scored  # φ(0) = ½ of each record
        assert edition == "some" or (set(scored) == {285 * 2**23} and release.value["score"] == 0.5)
        assert release.spends == whole.spends
        assert {*release.facts} == {*whole.facts}  # and it is not told which could not be trained


def test_a_path_that_trained_ahead_trains_nothing_in_its_steps(spec, book, monkeypatch):
    run = open_study(Run.of(spec["lipschitz_ahead"], QueryContext(book)))
    fail(monkeypatch, StudyInvalid("at lambda = 0.777"))
    assert run.run().release.value["score"] is not None
    with pytest.raises(StudyInvalid, match="nothing was charged"):
        open_study(Run.of(spec["lipschitz_ahead"].replace(edition="2"), QueryContext(book)))
    assert len(book.accounts("people")[0].entries) == 1


@pytest.mark.parametrize("high", [LOW * 1.0001, LOW * 1.5, 1e3 * LOW])
def test_what_stands_for_a_model_that_cannot_be_trained_counts_in_the_length_of_the_path(spec, high):
    """By hand: from w = 0 it is up to B + τ to a trained model, however near these are to one another."""
    space = {"lambda": {"low": LOW, "high": high, "points": 2}}
    for form, one in spec.items():
        tables = one.to_dict() | {"space": space}
        (spend,) = plan_study(StudySpec.from_dict(tables)).spends
        B = min(1 / LOW, math.sqrt(2 * (math.log(2) if one.model.estimator == "logistic" else 1.0) / LOW))
        D = min(1 / LOW - 1 / high, 2 * B)
        D = max(D, B) if form == "lipschitz_step" else D
        moved = 0.05 * D + 2 * 0.05 * B / 285
        assert spend.sensitivity == pytest.approx(moved, rel=1e-2)
        assert spend.sensitivity >= moved


def test_training_in_steps_is_taken_on_by_name_by_the_study_and_by_the_cap(spec, book):
    one = spec["lipschitz_step"]
    assert plan_study(one).guarantee.assumptions == PATH_ACCEPTS
    assert plan_study(spec["lipschitz_ahead"]).guarantee.assumptions == ()
    with pytest.raises(AssumptionNotAccepted, match=r'accepts = \["step_times_hidden"\]'):
        run_study(one.replace(accepts=()), ledger=book)
    assert book.accounts() == ()
    book.set_budget(PrivacyBudget.of("strict", epsilon=9.0, delta=1e-6))
    elsewhere = one.replace(budget=None, privacy=one.privacy.replace(dataset="strict"))
    with pytest.raises(AssumptionNotAccepted, match="--accept step_times_hidden"):
        run_study(elsewhere, ledger=book)
    assert book.accounts("strict")[0].entries == ()
    release = run_study(one, ledger=book).release
    assert release.guarantee.assumptions == PATH_ACCEPTS


def test_where_others_see_the_steps_nothing_is_charged(spec, book, trained):
    seen = QueryContext(book, steps_seen=True)
    with pytest.raises(StudyInvalid, match="did not start") as refused:
        open_study(Run.of(spec["lipschitz_step"], seen))
    assert "--direct" in str(refused.value.remedy)
    assert book.accounts() == ()
    assert trained == []
    assert open_study(Run.of(spec["lipschitz_ahead"], seen)).run().release.value["score"] is not None
    released = run_study(spec["lipschitz_step"].replace(edition="2"), ledger=book).release
    # and a replay is
    assert open_study(Run.of(spec["lipschitz_step"].replace(edition="2"), seen)).run().release == released


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"train": "step"}, "where all of Λ is scored"),
        ({"train": "step", "evaluate": "all"}, "where all of Λ is scored"),
        ({"train": "steps", "evaluate": "path"}, "train"),
    ],
)
def test_a_study_that_says_otherwise_is_refused(spec, options, said):
    with pytest.raises(StudyInvalid, match=said):
        plan_study(spec["lipschitz_step"].replace(options=options))
    assert Lipschitz("path", train="step").trains_in_steps


def test_other_models_are_refused_at_the_plan(tables):
    tables["model"] = {"estimator": "sklearn.linear_model.LogisticRegression", "score": "accuracy"}
    tables["space"] = {"C": {"low": 0.1, "high": 1.0, "points": 2}}
    tables["study"] |= {"method": "lipschitz", "accepts": list(PATH_ACCEPTS)}
    with pytest.raises(StudyInvalid, match="lipschitz cannot tune"):
        plan_study(StudySpec.from_dict(tables | {"method": PATHS["lipschitz_step"]}))


EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("algorithm_*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_as_it_stands(path, book):
    """Within its cap, under what it accepts, and not stopped for being useless."""
    spec = read_study(path)
    run = Run.of(spec, QueryContext(book, if_useless=IfUseless.SPEND))
    check_first(run.study, run.ledger)
    release = open_study(run).run().release
    assert bool(run.useless) == bool(spec.privacy.anyway)
    assert release.guarantee.epsilon == spec.privacy.epsilon
    assert release.guarantee.evidence.standing == "corrected"
    assert set(release.guarantee.assumptions) == set(spec.accepts)
    assert len(EXAMPLES) == 4
