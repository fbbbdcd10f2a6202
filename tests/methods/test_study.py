"""A study from its file to its release: prices, reruns, refusals, and files whatever their bytes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from of_features import installed
from worlds import with_method

from dpbo_core.errors import AssumptionNotAccepted, BudgetExceeded, NoBudget, NoiseNotPrivate, Sealed, StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.methods import EXCHANGES, METHODS
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.methods.public import Public
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.scoring.in_memory import Objective
from dpbo_core.study import StudySpec, data_split
from dpbo_core.study import resolve as resolving
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.precomputed import Precomputed, required_trainings, train_candidates
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import advise_study, plan_study, resolve
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study, run_study

HEADER = "age,dose,ill\n"


def ledger(folder):
    return PrivacyLedger(f"sqlite:///{folder / 'ledger.db'}")


@pytest.fixture
def on_files(tables, tmp_path):
    """The study on two CSV files of 60 and 40 records."""
    rng = np.random.default_rng(1)

    def rows(n):
        age, dose = rng.normal(50, 10, n), rng.normal(1, 0.3, n)
        ill = (age / 10 + dose + rng.normal(0, 0.5, n) > 6).astype(int)
        return "".join(f"{a:.3f},{d:.3f},{i}\n" for a, d, i in zip(age, dose, ill, strict=True))

    (tmp_path / "train.csv").write_text(HEADER + rows(60))
    (tmp_path / "validation.csv").write_text(HEADER + rows(40))
    tables["data"] = {"training": "train.csv", "validation": "validation.csv", "n_validation": 40, "target": "ill"}
    return tables


@pytest.mark.parametrize("kind", METHODS)
def test_asked_twice_it_gives_the_same_release_and_pays_once(tables, tmp_path, kind):
    spec, book = StudySpec.from_dict(with_method(tables, kind)), ledger(tmp_path)
    first, second = run_study(spec, ledger=book), run_study(spec, ledger=book)
    assert not first.replayed
    assert second.replayed
    assert first.release == second.release
    assert first.release.guarantee == plan_study(spec).guarantee
    (account,) = book.accounts("people")
    assert len(account.entries) == 1


def test_another_training_file_is_another_study(on_files, tmp_path):
    """Whoever changes a public record, or the edition, asks for another release, and pays for it."""
    spec, book = StudySpec.from_dict(with_method(on_files, "private_grid")), ledger(tmp_path)
    results = [run_study(spec, ledger=book, folder=tmp_path)]
    results.append(run_study(spec.replace(edition="2"), ledger=book, folder=tmp_path))
    lines = (tmp_path / "train.csv").read_text().splitlines()
    (tmp_path / "train.csv").write_text("\n".join(lines[:-1]) + "\n")
    results.append(run_study(spec, ledger=book, folder=tmp_path))
    assert not any(result.replayed for result in results)
    assert len({result.release.release_id for result in results}) == 3
    assert len(book.accounts("people")[0].entries) == 3


def test_without_a_cap_nothing_runs(tables, tmp_path):
    del tables["budget"]
    with pytest.raises(NoBudget):
        run_study(StudySpec.from_dict(tables), ledger=ledger(tmp_path))


class Pretender(InjectedNoise):
    """A source that only calls itself private."""

    standing = "operating_system"


def test_injected_noise_runs_only_on_a_public_dataset(tables, tmp_path):
    spec, book = StudySpec.from_dict(tables), ledger(tmp_path)
    source = InjectedNoise(np.random.default_rng(0))
    for refused in (source, Pretender(np.random.default_rng(0), 0.0)):
        with pytest.raises(NoiseNotPrivate):
            run_study(spec, ledger=book, source=refused)
    book.set_budget(PrivacyBudget.without_limit("people"))
    release = run_study(spec.replace(budget=None), ledger=book, source=source).release
    assert release.noise == "injected"
    assert release.guarantee.in_words() == (
        "No privacy guarantee: the noise was injected, not drawn from the operating system."
    )


def test_published_calibration_runs_only_on_a_public_dataset(tables, tmp_path):
    tables["study"]["method"], tables["method"] = "lipschitz", {"calibration": "published"}
    dearer = StudySpec.from_dict(tables)
    assert plan_study(dearer).guarantee.evidence.standing == "printed"  # so wide a Λ that its noise is no smaller
    tables["space"]["lambda"] |= {"low": 5.0, "high": 8.0}
    spec, book = StudySpec.from_dict(tables), ledger(tmp_path)
    with pytest.raises(Exception, match="known to be false") as refused:
        run_study(spec, ledger=book)
    assert refused.value.exit_code == 3
    book.set_budget(PrivacyBudget.without_limit("people"))
    release = run_study(spec.replace(budget=None), ledger=book).release
    assert release.guarantee.to_json()["epsilon"] is None


def test_an_assumption_nobody_accepted_is_refused_by_name(tables, tmp_path, monkeypatch):
    spec, book = StudySpec.from_dict(tables), ledger(tmp_path)
    honest = METHODS["private_grid"].plan

    def assuming(self, problem):
        plan = honest(self, problem)
        return replace(plan, guarantee=replace(plan.guarantee, assumptions=("gp_prior",)))

    monkeypatch.setattr(METHODS["private_grid"], "plan", assuming)
    spec = spec.replace(method="private_grid")
    with pytest.raises(AssumptionNotAccepted, match=r'accepts = \["gp_prior"\]'):
        run_study(spec, ledger=book)
    assert book.accounts() == ()
    accepted = run_study(spec.replace(accepts=("gp_prior",)), ledger=book).release
    assert accepted.guarantee.assumptions == ("gp_prior",)
    assert "differentially private" not in accepted.guarantee.in_words()
    book.set_budget(PrivacyBudget.of("strict", epsilon=9.0, delta=1e-6))
    elsewhere = spec.replace(accepts=("gp_prior",), budget=None, privacy=spec.privacy.replace(dataset="strict"))
    letter = r"not opened with it.*no command adds .*budget set NAME --epsilon E --delta D --accept gp_prior"
    with pytest.raises(AssumptionNotAccepted, match=letter):
        run_study(elsewhere, ledger=book)
    book.set_budget(PrivacyBudget.of("open", epsilon=9.0, delta=1e-6, accepts=("gp_prior",)))  # as the message says
    opened = elsewhere.replace(privacy=spec.privacy.replace(dataset="open"))
    assert run_study(opened, ledger=book).release.guarantee.assumptions == ("gp_prior",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: (d / "validation.csv").unlink(), "validation.csv"),
        (lambda d: (d / "train.csv").unlink(), "train.csv"),
        (lambda d: (d / "validation.csv").write_text(HEADER + "1,2,0\n" * 39), "39 records.*40"),
        (lambda d: (d / "validation.csv").write_text("age,dose,well\n" + "1,2,0\n" * 40), "ill"),
        (lambda d: (d / "validation.csv").write_text("age,dos,ill\n" + "1,2,0\n" * 40), "dose"),
        (lambda d: (d / "train.csv").write_text(HEADER + "1,2,0\n" * 60), "one class"),
        (lambda d: (d / "train.csv").write_text("age,dose,i\n" + "1,2,0\n" * 60), "'ill'"),
    ],
)
def test_bad_files_are_letters_and_cost_nothing(on_files, tmp_path, change, message):
    change(tmp_path)
    book = ledger(tmp_path)
    with pytest.raises(StudyInvalid, match=message):
        run_study(StudySpec.from_dict(on_files), ledger=book, folder=tmp_path)
    assert book.accounts() == ()


@pytest.mark.parametrize("kind", METHODS)
def test_nothing_inside_a_validation_record_is_an_error(on_files, tmp_path, kind):
    hostile = [b"", b"nan,inf,1", b"1e308,-1e308,0", b"\xff\xfe,1,0", b'"",",1', b"1,2", b"1,2,3,4,5", b"x,y,maybe"]
    lines = [hostile[i % len(hostile)] for i in range(40)]
    (tmp_path / "validation.csv").write_bytes(HEADER.encode() + b"\n".join(lines) + b"\n")
    spec = StudySpec.from_dict(with_method(on_files, kind))
    release = run_study(spec, ledger=ledger(tmp_path), folder=tmp_path).release
    assert np.isfinite(release.value["score"])


@pytest.mark.parametrize("acquisition", ["ucb", "ei"])
def test_every_acquisition_and_fitted_lengthscales_run(tables, tmp_path, acquisition):
    tables["search"] |= {"acquisition": acquisition, "lengthscale": "fit", "kernel": "se", "steps": 7}
    quiet = InjectedNoise(np.random.default_rng(0), 0.0)
    spec = StudySpec.from_dict(tables).replace(budget=None)
    book = ledger(tmp_path)
    book.set_budget(PrivacyBudget.without_limit("people"))
    assert 0.8 < run_study(spec, ledger=book, source=quiet).release.value["score"] <= 1.0


@pytest.mark.parametrize("estimator", ["logistic", "sklearn.ensemble.RandomForestClassifier"])
def test_the_final_model_of_a_run_is_the_one_its_files_give(on_files, tmp_path, estimator, monkeypatch):
    """To the last bit, though the run has trained others before it; and the run reads no file again."""
    if "." in estimator:
        on_files["model"] = {"estimator": estimator, "score": "accuracy", "params": {"n_estimators": 5}}
        on_files["space"] = {"max_depth": {"low": 1, "high": 6, "integer": True}}
    spec = StudySpec.from_dict(with_method(on_files, "private_trajectory"))
    run = open_study(Run.of(spec, QueryContext(ledger(tmp_path), folder=tmp_path)))
    release = run.run().release
    afresh = FinalModel.of_release(spec, tmp_path, release)
    monkeypatch.setattr("dpbo_core.study.final_training.public_half", None)
    kept = FinalModel.of_release(spec, tmp_path, release, run.public)
    assert afresh is not kept
    assert repr(afresh.preprocessing) == repr(kept.preprocessing)
    if "." in estimator:
        rows = np.random.default_rng(0).normal(size=(500, 2))
        one, other = (model.model.estimator.predict_proba(rows) for model in (afresh, kept))
        assert np.array_equal(one, other)
    else:
        assert afresh.model.weights.tobytes() == kept.model.weights.tobytes()


@pytest.mark.parametrize(
    ("kind", "elsewhere"),
    [
        ("private_grid", True),
        ("noisy_gp", False),
        *(pytest.param(kind, True, marks=pytest.mark.slow) for kind in installed("noisy_gp", "dp_hypo")),
        *(pytest.param(kind, False, marks=pytest.mark.slow) for kind in installed("private_grid", "dp_hypo")),
    ],
)
def test_no_estimator_that_scored_a_sensitive_record_is_published(on_files, tmp_path, kind, elsewhere):
    """Scikit-learn's search trees count their queries, and their files hold the counts: facts without noise."""
    on_files["model"] = {"estimator": "sklearn.neighbors.KNeighborsClassifier", "score": "accuracy"}
    on_files["model"]["params"] = {"algorithm": "kd_tree"}
    on_files["space"] = {"n_neighbors": {"values": [3, 5]}}
    spec = StudySpec.from_dict(with_method(on_files, kind))
    models = train_candidates(spec, tmp_path, required_trainings(resolve(spec)))
    assert len(models) == 2
    unasked = models[0].estimator._tree.get_tree_stats()
    run = open_study(
        Run.of(spec, QueryContext(ledger(tmp_path), folder=tmp_path)),
        precomputed=Precomputed(models=models) if elsewhere else None,
    )
    final = FinalModel.of_release(spec, tmp_path, run.run().release, run.public)
    assert final.model.estimator._tree.get_tree_stats() == unasked
    if elsewhere:  # or the counts would show nothing at all
        assert any(model.estimator._tree.get_tree_stats() != unasked for model in models.values())


@pytest.fixture
def trained(on_files, monkeypatch):
    """The study's trees are counted, by their depths."""
    depths, honest = [], EstimatorFactory.train

    def counted(factory, X, y, weights=None, /, **point):
        depths.append(point["max_depth"])
        return honest(factory, X, y, weights, **point)

    monkeypatch.setattr(EstimatorFactory, "train", counted)
    on_files["model"] = {"estimator": "sklearn.tree.DecisionTreeClassifier", "score": "accuracy"}
    on_files["space"] = {"max_depth": {"values": [1, 2, 3]}}
    return depths


@pytest.mark.parametrize(("gigabytes", "fits"), [(None, [1, 2, 3]), (0.0, [1, 1, 2, 3, "again"])])
def test_a_study_trains_each_model_once_while_there_is_room(on_files, tmp_path, trained, gigabytes, fits):
    if gigabytes is not None:
        on_files["data"]["memory_limit"] = gigabytes
    spec = StudySpec.from_dict(with_method(on_files, "private_grid"))
    run = open_study(Run.of(spec, QueryContext(ledger(tmp_path), folder=tmp_path)))
    result = run.run()
    final = FinalModel.of_release(spec, tmp_path, result.release, run.public)
    chosen = result.release.value["hyperparameters"]["max_depth"]
    assert trained == [chosen if fit == "again" else fit for fit in fits]
    assert final.model.estimator.get_params()["max_depth"] == chosen


@pytest.mark.parametrize("kind", installed("noisy_gp", "dp_hypo"))
def test_a_private_path_fits_no_estimator_in_a_step(on_files, tmp_path, kind, trained):
    """A fit takes longer at some points than at others, and a step's duration is seen."""
    run = open_study(
        Run.of(StudySpec.from_dict(with_method(on_files, kind)), QueryContext(ledger(tmp_path), folder=tmp_path))
    )
    assert trained == [1, 2, 3]
    run.run()
    assert trained == [1, 2, 3]


def test_a_failure_on_sensitive_data_is_sealed(tables, tmp_path, monkeypatch):
    def fails(self, model):
        raise ValueError("record 17 has income 123456789")

    monkeypatch.setattr(Objective, "evaluate", fails)
    run = open_study(Run.of(StudySpec.from_dict(tables), QueryContext(ledger(tmp_path))))
    with pytest.raises(Sealed) as sealed:
        run.step()
    error = sealed.value
    assert "123456789" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None
    assert not hasattr(error, "__notes__")


def test_a_private_path_seals_even_a_trainings_letter(tables, tmp_path, monkeypatch):
    """Which λ could not be trained would tell where the private path went; on a public path it is a message."""
    tables["budget"]["epsilon"] = 30.0
    spec = StudySpec.from_dict(tables)
    path = {"evaluate": "path"}
    for kind, options, raised in (("lipschitz", path, Sealed), ("private_trajectory", {}, StudyInvalid)):
        run = open_study(Run.of(spec.replace(method=kind, options=options), QueryContext(ledger(tmp_path))))
        with monkeypatch.context() as patch:

            def refuse(self, model):
                raise StudyInvalid("training at lambda = 0.777 failed")

            patch.setattr(Objective, "evaluate", refuse)
            with pytest.raises(raised) as caught:
                run.step()
        assert ("0.777" in str(caught.value)) is (raised is StudyInvalid)


def test_a_training_that_fails_after_the_charge_is_a_public_fact(on_files, tmp_path, monkeypatch):
    """In the steps of `lipschitz`: the same words at the same step whatever the records are, and one price."""
    from dpbo_core.models.linear import fit

    honest = fit.minimise

    def fails(*arguments, regularization, **named):
        if 0.01 < regularization < 0.1:
            raise StudyInvalid(f"training at lambda = {regularization:.6g} failed")
        return honest(*arguments, regularization=regularization, **named)

    monkeypatch.setattr(fit, "minimise", fails)
    on_files["study"]["method"] = "lipschitz"
    spec, told = StudySpec.from_dict(on_files), []
    for other in (False, True):
        book = PrivacyLedger(f"sqlite:///{tmp_path}/{other}.db")
        if other:  # every label of V turned over
            text = (tmp_path / "validation.csv").read_text().splitlines()
            turned = [",".join([*line.split(",")[:-1], "01"[line.endswith("0")]]) for line in text[1:]]
            (tmp_path / "validation.csv").write_text("\n".join([text[0], *turned]) + "\n")
        for _ in range(2):  # asked again it fails there again, and costs no more
            done = []
            with pytest.raises(StudyInvalid, match="at lambda") as caught:
                run_study(spec, ledger=book, folder=tmp_path, on_step=lambda step, _, d=done: d.append(step))
            price = len(book.accounts("people")[0].entries)
            told.append((len(done), str(caught.value), caught.value.__context__, price))
    assert len(set(told)) == 1
    assert told[0][0] > 0
    assert told[0][3] == 1


def test_no_content_is_read_before_the_budget_is_reserved(on_files, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(data_split, "sensitive_half", lambda *_: opened.append("opened"))
    on_files["budget"]["epsilon"] = 0.5
    with pytest.raises(BudgetExceeded):
        run_study(StudySpec.from_dict(on_files), ledger=ledger(tmp_path), folder=tmp_path)
    assert opened == []


def test_planning_opens_no_file(on_files, monkeypatch):
    honest = Path.open

    def only_the_calibration(path, *arguments, **named):
        assert path.name == "expected_loss.csv", "opened a file"  # the package's own table
        return honest(path, *arguments, **named)

    monkeypatch.setattr(Path, "open", only_the_calibration)
    spec = StudySpec.from_dict(on_files)
    assert plan_study(spec).guarantee.epsilon == 1.0
    assert {line.kind for line in advise_study(spec).methods} == set(METHODS) | set(EXCHANGES)


def test_advice_says_plainly_that_the_path_of_algorithm_3_is_useless_here_and_all_of_it_is_not(tables):
    tables["study"]["method"] = "lipschitz"
    (whole,) = (line for line in advise_study(StudySpec.from_dict(tables)).methods if line.kind == "lipschitz")
    assert whole.verdict == "good"
    assert whole.noise_scale <= 0.0036
    tables["method"] = {"evaluate": "path"}
    lines = {line.kind: line for line in advise_study(StudySpec.from_dict(tables)).methods}
    three = lines["lipschitz"]
    assert three.verdict == "useless"
    assert three.noise_scale == pytest.approx(1.0, rel=1e-6)
    assert "2.5e+04" in three.why
    assert "costs more than all" in three.why
    assert lines["private_trajectory"].verdict == "good"
    assert advise_study(StudySpec.from_dict(tables)).recommended in ("private_trajectory", "private_grid")


def test_a_private_path_trains_everything_before_it_is_charged(tables, tmp_path, monkeypatch):
    """Which λ is trained when, for how long, and whether it fails would tell the path."""
    from dpbo_core.models.linear import fit

    trained, honest = [], fit.minimise

    def counted(*arguments, **named):
        trained.append(named["regularization"])
        return honest(*arguments, **named)

    monkeypatch.setattr(fit, "minimise", counted)
    tables["study"]["method"], tables["method"] = "noisy_gp", {}
    run = open_study(Run.of(StudySpec.from_dict(tables), QueryContext(ledger(tmp_path))))
    assert len(trained) == len(set(trained)) == 16
    run.step()
    assert len(trained) == 16
    tables["space"]["lambda"]["low"] = 1e-13  # cannot be certified there
    tables["study"]["name"] = "too far"
    book = ledger(tmp_path)
    with pytest.raises(StudyInvalid, match="certificate"):
        run_study(StudySpec.from_dict(tables), ledger=book)
    assert len(book.accounts("people")[0].entries) == 1
    tables["space"]["lambda"] |= {"low": 1e-4, "points": 5000}
    with pytest.raises(StudyInvalid, match="5,000"):
        run_study(StudySpec.from_dict(tables), ledger=book)


@pytest.mark.parametrize("kind", METHODS)
def test_a_resolved_study_is_what_its_reservation_says(tables, kind):
    """Of every method: its options and its number of editions, through JSON; whatever is resolved today."""
    study = resolve(StudySpec.from_dict(with_method(tables, kind)))
    then = replace(study, problem=replace(study.problem, editions=7))
    reserved = json.loads(json.dumps(then.to_json())) | {"method": kind}
    another = replace(then, method=Public(), problem=replace(study.problem, editions=3))
    assert another.as_charged(reserved) == then


def test_what_was_charged_goes_on_with_the_method_that_it_was_resolved_to(tables, tmp_path, monkeypatch):
    """A study of "auto", whose advice is another today, and one of a method whose defaults are."""
    book = ledger(tmp_path)
    tables["budget"]["epsilon"] = 30.0
    spec = StudySpec.from_dict(tables)
    for name, chosen in (("auto", PrivateTrajectory()), ("private_grid", PrivateGrid(score_share=0.5))):
        asked = spec.replace(name=name, method=name)
        with monkeypatch.context() as patch:
            patch.setattr(resolving, "choose", lambda *_, chosen=chosen: (chosen, "it was so"))
            open_study(Run.of(asked, QueryContext(book)))
            begun = resolve(asked).plan
        assert resolve(asked).method != chosen
        release = run_study(asked, ledger=book).release
        assert (release.method, release.spends) == (chosen.kind, begun.spends)


def test_one_file_is_not_both_halves(on_files, tmp_path):
    on_files["data"] |= {"validation": "train.csv", "n_validation": 60}
    with pytest.raises(StudyInvalid, match="both the training file and the validation file"):
        run_study(StudySpec.from_dict(on_files), ledger=ledger(tmp_path), folder=tmp_path)
