"""Advice before spending, and method = "auto": from public facts alone, deterministic, no worse than it says."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from worlds import mostly_slow

from benchmarks.compare.rivals import run_on
from benchmarks.compare.tasks import ScoreTable, on_table
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods import expected_loss
from dpbo_core.methods.advice import advise, choose
from dpbo_core.methods.expected_loss import AGREEMENT_DEGREES, FORMS_WITHOUT_MODEL, TABLE_RECORDS, expected
from dpbo_core.methods.expected_loss import rows as table_rows
from dpbo_core.methods.lipschitz import Lipschitz
from dpbo_core.methods.private_grid import SIMULATED_SHARE, PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.methods.public import Public
from dpbo_core.models.integer_sums import GRID
from dpbo_core.search.search_space import Real, SearchSpace, sobol
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import advise_study, plan_study, problem_of
from dpbo_core.study.tuning import run_study

FORMS = (
    PrivateGrid(score_share=SIMULATED_SHARE),
    PrivateGrid(evaluate="sobol", score_share=SIMULATED_SHARE),
    PrivateGrid(evaluate="public_shortlist", score_share=SIMULATED_SHARE),
    PrivateTrajectory(),
    PrivateTrajectory(prior="public"),
    PrivateGrid(evaluate="tried", base_measure="public", score_share=SIMULATED_SHARE),
    Public(),
)


def on_files(**changes):
    """A study of files of which none is there."""
    tables = {
        "study": {"name": "s", "method": "auto"},
        "privacy": {"dataset": "d", "epsilon": 1.0, "delta": 1e-6},
        "data": {"training": "t.csv", "validation": "none.csv", "n_validation": 300, "target": "y"},
        "model": {"estimator": "logistic", "score": "accuracy"},
        "space": {"lambda": {"low": 0.1, "high": 10.0}},
    }
    return StudySpec.from_dict({name: tables[name] | changes.get(name, {}) for name in tables if name != "space"}
                               | {"space": changes.get("space", tables["space"])})  # fmt: skip


def spec_of(tables, method="auto", **privacy):
    tables["study"]["method"] = method
    tables["privacy"] |= privacy
    return StudySpec.from_dict(tables)


def method_of(spec):
    return spec.method, spec.options


def problem_for(tables, m=285, **privacy):
    return problem_of(spec_of(tables, **privacy), n_validation=m)


def test_auto_is_one_of_the_calibrated_methods_and_says_why(tables, tmp_path):
    spec, book = spec_of(tables), PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    result = run_study(spec, ledger=book)
    release = result.release
    assert release.method in ("private_grid", "public")
    assert release.method == advise_study(spec).recommended
    assert "below the best" in release.facts["chosen_by_advice"]
    assert release.guarantee == plan_study(spec).guarantee
    (account,) = book.accounts("people")
    assert [entry.method for entry in account.entries] == [release.method]
    json.dumps(release.to_json(), allow_nan=False)


def test_auto_asked_twice_is_one_release_even_if_the_advice_has_changed_since(tables, tmp_path, monkeypatch):
    spec, book = spec_of(tables), PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    first = run_study(spec, ledger=book)
    other = "public" if first.release.method == "private_grid" else "private_grid"
    advised = expected_loss.expected

    def reversed_(method, problem):
        found = advised(method, problem)
        return found and replace(found, regret=0.0 if method.kind == other else 1.0)

    monkeypatch.setattr("dpbo_core.methods.advice.expected", reversed_)
    assert advise_study(spec).recommended == other
    again = run_study(spec, ledger=book)
    assert again.replayed
    assert again.release == first.release
    assert len(book.accounts("people")[0].entries) == 1


def test_auto_takes_no_options(tables):
    tables["method"] = {"evaluate": "all"}
    with pytest.raises(StudyInvalid, match="'evaluate'"):
        plan_study(spec_of(tables))


def test_without_delta_auto_is_the_grid(tables):
    problem = problem_for(tables, delta=0.0)
    assert choose(problem, *method_of(spec_of(tables, delta=0.0)))[0].kind == "private_grid"


def test_an_epsilon_that_nothing_can_divide_is_refused(tables):
    spec = spec_of(tables, epsilon=1e-12, delta=0.0)
    with pytest.raises(StudyInvalid, match="finds no method"):
        choose(problem_of(spec, n_validation=285), *method_of(spec))


def test_a_method_that_releases_no_hyperparameter_is_never_recommended(tables):
    for m in (10, 10**9):
        advice = advise(problem_for(tables, m=m), *method_of(spec_of(tables, "lipschitz")))
        assert advice.recommended != "lipschitz"
        (line,) = (line for line in advice.methods if line.kind == "lipschitz")
        assert line.expected_regret is None
    assert expected(Lipschitz(), problem_for(tables)) is None


def test_auto_trains_at_most_a_fifth_more_than_the_public_search(tables):
    """Which trains min(N, 256) candidates five times each."""
    for points in (3, 16, 200, 400):
        tables["space"]["lambda"]["points"] = points
        problem = problem_for(tables)
        method, _ = choose(problem, *method_of(spec_of(tables)))
        assert method.kind == "private_grid"
        assert method.n_steps(problem) == min(points, 256)


def test_where_the_noise_drowns_every_score_auto_chooses_in_public(tables):
    """One record at ε = 1: nothing private can tell two candidates apart, and the score has all of ε."""
    problem = problem_for(tables, m=1)
    method, why = choose(problem, *method_of(spec_of(tables)))
    assert method == Public()
    assert "no private choice" in why
    assert choose(problem_for(tables, m=5_000), *method_of(spec_of(tables)))[0].kind == "private_grid"


def named(form):
    if form.kind == "public":
        return "public"
    if form.kind == "private_trajectory":
        return f"{form.kind}/{form.prior}"
    return f"{form.kind}/{form.evaluate if form.base_measure == 'none' else 'base_measure'}"


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_at_a_node_the_lookup_is_the_table(form):
    """Also with the noise of another (ε, k) that comes to the same; over the degrees its ends and its mean."""
    of = [row for row in table_rows() if row.form == named(form) and row.public in (0, 500)]
    d, n, at = of[0].dimensions, of[0].trainings, TABLE_RECORDS.index(3_000)
    rows = [row for row in of if (row.dimensions, row.trainings) == (d, n)]
    assert [row.degree for row in rows] in ([""], list(AGREEMENT_DEGREES))
    size = n if named(form).endswith(("/all", "/base_measure")) else 256
    world = synthetic(d=d, size=size, steps=n, m=3_000)
    same = [world]
    if form.kind == "private_grid":
        same += [
            replace(world, epsilon=0.3, n_validation=10_000),
            replace(world, max_records_per_person=3, epsilon=3.0),
        ]
    losses = [max(row.regret[at], 1e-5) for row in rows]
    middle = 1.5 * math.sqrt((min(losses) + 5e-4) * (max(losses) + 5e-4))
    for problem in same if form.kind != "public" else [replace(world, epsilon=0.25, n_validation=3_000)]:
        found = expected(form, problem)
        assert found.regret == pytest.approx(np.mean(losses), rel=1e-3)
        assert found.low == pytest.approx(max(0.0, middle / math.sqrt(10) - 5e-4), rel=1e-3)
        assert found.high == pytest.approx(middle * math.sqrt(10) - 5e-4, rel=1e-3)
        if form.kind != "public":
            assert found.score_error == pytest.approx(max(rows[0].score_error[at], 1e-5), rel=1e-3)


def test_a_range_spans_ten_at_most_and_is_said_with_one_digit():
    for m in (20, 300, 5_000, 10**6):
        for form in FORMS:
            found = expected(form, synthetic(d=2, size=100, steps=20, m=m))
            assert found.low <= found.high
            assert found.high + 5e-4 <= 10.001 * (found.low + 5e-4)
            if named(form).rpartition("/")[2] in FORMS_WITHOUT_MODEL:
                assert (found.range, found.short) == (None, "unknown")
                continue
            assert max(len(word.strip("0.")) for word in found.caption.split() if word[0].isdigit()) == 1


def test_an_uncounted_public_set_is_between_a_small_one_and_a_large_one():
    world = synthetic(d=2, size=100, steps=20, m=300)
    blind = expected(FORMS[5], replace(world, trainer=None))
    ends = []
    for n in (50, 5_000):
        trainer = type("Known", (), {"n_records": n})()
        ends.append(expected(FORMS[5], replace(world, trainer=trainer)))
    assert ends[0].high > ends[1].high
    assert min(e.low for e in ends) <= blind.low <= blind.high <= max(e.high for e in ends)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_less_noise_never_expects_a_much_larger_loss(form):
    """Simulated, so not exactly monotone: never more than the standard error of the table, a factor of 2, up."""
    found = [expected(form, synthetic(d=2, size=256, steps=20, m=m)) for m in np.geomspace(20, 1e7, 30).astype(int)]
    assert all(math.isfinite(x.regret) and x.regret >= 0 for x in found)
    for a, b in pairwise(found):
        assert b.score_error <= a.score_error * 1.05 + 1e-5
        assert b.regret <= 2.0 * a.regret + 1e-4
    assert found[-1].score_error < found[0].score_error / 1e3


def synthetic(*, d, size, steps, m, epsilon=1.0):
    from dpbo_core.methods.problem import Problem
    from dpbo_core.models.scores.accuracy import Accuracy
    from dpbo_core.study import EstimatorSection, SearchSection

    class Known:
        n_records = 500

    return Problem(
        candidates=sobol(SearchSpace({f"x{i}": Real(0.0, 1.0) for i in range(d)}), size, seed=0),
        n_validation=m,
        score=Accuracy(),
        model=EstimatorSection(estimator="sklearn.svm.SVC"),
        search=SearchSection(steps=steps),
        epsilon=epsilon,
        trainer=Known(),
    )


@pytest.mark.parametrize("sizes", mostly_slow(((200,), (200, 5_000)), (200,)))
def test_on_landscapes_it_was_not_calibrated_on_the_recommended_loses_no_more_than_the_others(sizes):
    """Sines instead of Gaussian processes, 15 of them, two sizes: the advised form is within a factor of 2 of the
    best of all in hindsight, or within 0.004; the worst is far outside."""
    rng = np.random.default_rng(11)
    for m in sizes:
        world = synthetic(d=2, size=100, steps=10, m=m)
        u, losses = world.candidates.encoded, {str(form): [] for form in FORMS[1:]}
        for i in range(15):
            a, b, c = rng.uniform(1, 3, 2), rng.uniform(0, 3, 2), rng.uniform(0.05, 0.3)
            f = 0.6 + c * np.sin(a[0] * u[:, 0] * 2 + b[0]) * np.cos(a[1] * u[:, 1] * 2 + b[1])
            p = f + 0.01 * np.sin(7 * u[:, 0] + rng.uniform(0, 6))
            table = ScoreTable(np.rint(f * m * GRID).astype(np.int64), p)
            for form in FORMS[1:]:
                found = run_on(form, *on_table(world, table), seed=i)
                losses[str(form)].append(f.max() - f[found.index])
        spec_like = [(expected(form, world).regret, str(form)) for form in FORMS[1:]]
        advised = min(spec_like)[1]
        means = {form: float(np.mean(x)) for form, x in losses.items()}
        assert means[advised] <= max(2 * min(means.values()), min(means.values()) + 0.004)
        assert max(means.values()) > max(2 * min(means.values()), min(means.values()) + 0.004)


def test_a_trajectory_is_never_chosen_for_anybody_and_says_what_it_costs(tables):
    """Whatever the simulation thinks of it: who must show the search asks for it, and reads its price."""
    for m in (60, 2_000, 10**6):
        advice = advise(problem_for(tables, m=m), *method_of(spec_of(tables, "private_trajectory")))
        assert advice.recommended == "private_grid"
        (line,) = (line for line in advice.methods if line.kind == "private_trajectory")
        if m == 2_000:
            assert "showing every score costs" in line.why


def test_what_the_first_training_would_refuse_a_plan_refuses():
    for estimator, axis, said in (
        ("sklearn.svm.SVC", "CC", "the nearest valid name is 'C'"),
        ("sklearn.svm.SVX", "C", "SVX"),
        ("nowhere.Forest", "C", "no installed distribution"),
        ("sklearn.svm.SVR", "C", "not a classifier"),
    ):
        with pytest.raises(StudyInvalid, match=said):
            advise_study(on_files(model={"estimator": estimator}, space={axis: {"low": 0.1, "high": 10.0}}))


def test_a_verdict_counts_what_there_is_to_gain_over_one_answer_for_all():
    """Fifty records at ε = 1: an error below a tenth is small beside the range, and much of the gain."""
    space = {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 16}}
    spec = on_files(data={"n_validation": 50}, model={"score": "sigmoid"}, space=space)

    def verdicts(baseline):
        return {line.kind: line for line in advise_study(spec, baseline=baseline).methods}

    unknown, balanced, rare = verdicts(None), verdicts(0.5), verdicts(0.94)
    assert unknown["private_trajectory"].verdict == "good"
    assert balanced["private_trajectory"].verdict == "poor"
    assert "always giving the same answer scores only 0.5 below" in balanced["private_trajectory"].why
    assert rare["private_trajectory"].verdict == rare["private_grid"].verdict == "useless"
    order = ("good", "poor", "useless", "refused")
    for kind, line in unknown.items():
        assert order.index(line.verdict) <= order.index(balanced[kind].verdict) <= order.index(rare[kind].verdict)


def test_the_baseline_is_the_public_files_and_refused_without_it(tmp_path):
    from dpbo_core.study.run import advised_half

    spec = on_files()
    with pytest.raises(StudyInvalid, match=r"no file t.csv"):
        advised_half(spec, tmp_path)
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i},{i % 5 == 0:d}\n" for i in range(50)))
    assert advised_half(spec, tmp_path).problem.baseline == 0.8  # no validation file is there to be opened


def test_a_plan_that_counts_the_public_file_says_narrower_things_of_the_same_choice(tmp_path):
    """n moves the ranges, and never which method "auto" becomes, for that is asked where no file is."""
    from dpbo_core.study.data_files import n_public

    spec = on_files()
    with pytest.raises(StudyInvalid, match=r"no file t.csv"):
        n_public(spec, tmp_path)
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i},{i % 5 == 0:d}\n" for i in range(60)))
    assert n_public(spec, tmp_path) == 60  # no validation file is there to be opened
    bundled = StudySpec.from_dict(spec.to_dict() | {"data": {"source": "breast_cancer", "validation_share": 0.5}})
    assert n_public(bundled, tmp_path) == 284
    unknown, few, many = (advise_study(spec, n_public=n) for n in (None, 60, 5000))
    assert few.recommended == many.recommended == unknown.recommended
    assert few.choice.options == many.choice.options == unknown.choice.options
    by_kind = [{line.kind: line for line in told.methods} for told in (many, unknown, few)]
    lost = [lines["public"].expected_regret for lines in by_kind]
    ranges = [lines["private_grid"].expected_regret_range for lines in by_kind]
    assert lost[0] <= lost[1] <= lost[2]
    assert ranges[0][1] <= ranges[1][1] <= ranges[2][1] > ranges[0][1]
    assert few.choice.why != many.choice.why  # the reason is about this public set
    assert few.to_json()["public_records"] == 60
    assert "public_records" not in unknown.to_json()


def test_a_plan_says_what_was_read_for_it(capsys):
    from dpbo.flows.cli.plan import print_advice
    from dpbo_core.methods.advice import Advice

    for facts, said in (
        ({}, "No sensitive record was read and nothing was charged."),
        ({"n_public": 1234}, "training file's records were read (1,234 records); nothing was charged."),
        (
            {"n_public": 50, "positives": 0.25},
            "public training file's records were read (50 records, 25.0% positive); no",
        ),
    ):
        print_advice(on_files(), Advice(None, (), **facts))
        assert said in " ".join(capsys.readouterr().out.split())
