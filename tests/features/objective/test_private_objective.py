"""A private objective: one draw a question, one price for all, whoever asks and however often."""

import copy
import itertools
import math
import multiprocessing
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import cloudpickle
import numpy as np
import pytest
from scipy.stats import norm
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from dpbo import PrivateObjective
from dpbo.features.objective.objective_handle import open_objective
from dpbo.features.objective.score_session import ScoreSession
from dpbo.features.objective.smoothed_choice import smoothed
from dpbo_core import NoScoresLeft, PrivacyBudget, PrivacyLedger, StudyInvalid
from dpbo_core.errors import BudgetRefused, DpboError, LedgerDamaged
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.accounting.composition import largest_rho
from dpbo_core.ledger.recovery import accept
from dpbo_core.mechanisms.noise import InjectedNoise, OperatingSystemNoise
from dpbo_core.privacy.amounts import from_units
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.sklearn_api.search_study import TwoTables, split_of
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import planning_problem
from dpbo_core.study.sections import ObjectiveSection

RNG = np.random.default_rng(7)
X, Z = RNG.normal(size=(120, 3)), RNG.normal(size=(90, 3))
Y, TRUTH = ((rows[:, 0] * rows[:, 1] > 0.1).astype(int) for rows in (X, Z))
CANARY = 41.9375  # in one sensitive record


def objective(url, **settings):
    fixed = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "dataset": "clinic",
        "budget": (5.0, 1e-5),
        "ledger": url,
        "n_scores": 4,
    }
    estimator = settings.pop("estimator", DecisionTreeClassifier())
    return PrivateObjective(estimator, **fixed | settings).fit(X, Y, X_validation=Z, y_validation=TRUTH)


def account(url):
    (only,) = PrivacyLedger(url).accounts("clinic")
    return only


def session(url, source, sensitive=(Z, TRUTH), **settings):
    """A session on a public dataset, whose noise may be injected."""
    PrivacyLedger(url).set_budget(PrivacyBudget.without_limit("open"))
    asked = PrivateObjective(
        settings.pop("estimator", DecisionTreeClassifier()),
        **{"epsilon": 1.0, "delta": 1e-2, "dataset": "open", "n_scores": 2, "ledger": url} | settings,
    )
    run = QueryContext(PrivacyLedger(url), source=source)
    split = split_of(asked, TwoTables(X, Y, *sensitive), run.ledger)
    problem = planning_problem(split.spec, unlisted=split.prototype.unlisted())
    return ScoreSession(open_objective(split.spec, split, problem, asked.section, run), run)


# One question, one draw, one price


def test_all_scores_are_paid_for_at_the_first_and_a_question_is_drawn_once(url):
    asked = objective(url)
    assert (asked.scores_left, PrivacyLedger(url).accounts("clinic")) == (4, ())
    first = asked({"max_depth": 1})
    assert account(url).spent.epsilon(1e-6)[0] == pytest.approx(1.0, rel=1e-6)
    again = [asked({"max_depth": 1}), asked({"max_depth": np.int64(1)}), objective(url)({"max_depth": 1})]
    assert again == [first] * 3
    assert (asked.scores_left, len(account(url).entries)) == (3, 1)
    assert asked({"max_depth": 2}) != first
    assert account(url).spent.epsilon(1e-6)[0] == pytest.approx(1.0, rel=1e-6)


def test_one_more_than_there_are_is_refused_and_nothing_is_lost(url):
    asked = objective(url, n_scores=2)
    scores = [asked({"max_depth": depth}) for depth in (1, 2)]
    with pytest.raises(NoScoresLeft, match=r"all 2 scores.*best\(\)"):
        asked({"max_depth": 3})
    assert (asked.scores_left, [asked({"max_depth": depth}) for depth in (1, 2)]) == (0, scores)
    assert len(asked.release_.value["trajectory"]) == 2


def test_an_open_objective_is_shown_with_its_scores_and_not_as_a_broken_run(url, dpbo, monkeypatch):
    monkeypatch.setenv("DPBO_LEDGER_URL", url)
    asked = objective(url, n_scores=2)
    for depth in (1, 2):
        asked({"max_depth": depth})
    shown, (code, _, err) = dpbo("budget")[1], dpbo("show", "PrivateObjective/objective")
    assert ("open, 2 scores" in shown, "not finished" in shown + err, code) == (True, False, 2)
    assert "call close()" in err
    asked.close()
    assert "open" not in dpbo("budget")[1].partition("released")[2]
    assert dpbo("show", "PrivateObjective/objective")[0] == 0


def test_a_mistake_is_a_value_error_that_names_the_argument(url):
    for settings, says in (
        ({"n_scores": 0}, "n_scores = 0"),
        ({"epsilon": -1.0}, "epsilon = -1.0"),
        ({"scoring": "no"}, "scoring ="),
    ):
        with pytest.raises(ValueError, match=f"^{says}"):
            objective(url, **settings)
    with pytest.raises(ValueError, match="correct the estimator or the search space"):
        objective(url)({"max_depth": -1})


def test_what_was_closed_scores_nothing_more_and_has_one_release(url):
    asked = objective(url)
    asked({"max_depth": 1})
    release = asked.close()
    assert (asked.close(), objective(url).close(), asked.release_) == (release,) * 3
    with pytest.raises(NoScoresLeft, match="closed after 1 of 4"):
        asked({"max_depth": 2})
    proven = recompute(read_certificate(release.to_json(), CERTIFIED), CERTIFIED)
    assert proven.epsilon <= 1.0
    assert proven.draws == 4
    assert release.guarantee.assumptions == ("public_questions",)


@pytest.mark.parametrize("settings", [{"choice_share": 0.3}, {"scoring": "roc_auc"}, {"n_scores": 1}])
def test_a_release_proves_its_guarantee(url, settings):
    asked = objective(url, **settings)
    asked({"max_depth": 1})
    proven = recompute(read_certificate(asked.close().to_json(), CERTIFIED), CERTIFIED)
    assert 0.99 <= proven.epsilon <= 1.0
    assert proven.delta <= 1e-6


def test_a_certificate_with_more_scores_than_were_paid_for_is_none(url):
    asked = objective(url, n_scores=1)
    asked({"max_depth": 1})
    document = asked.close().to_json()
    more, stated = copy.deepcopy(document), copy.deepcopy(document)
    more["value"]["trajectory"] *= 2
    stated["facts"]["steps"] = 2**63  # refused before so many draws are counted, which would take for ever
    for changed in (more, stated):
        with pytest.raises(StudyInvalid, match="no release"):
            read_certificate(changed, CERTIFIED)


def test_a_question_is_made_of_plain_values_and_of_names_that_there_are(url):
    asked, depths = objective(url), ([1], print, math.nan)
    for params in (*({"max_depth": depth} for depth in depths), {1: 2}, [1], {"no": 1}, {"a": "x" * 5000}):
        with pytest.raises(StudyInvalid):
            asked(params)
    assert asked.scores_left == 4
    assert PrivacyLedger(url).accounts("clinic") == ()


def test_a_model_that_cannot_be_trained_uses_up_no_score(url):
    asked = objective(url)
    asked({"max_depth": 1})
    with pytest.raises(StudyInvalid):
        asked({"max_depth": -5})
    assert asked.scores_left == 3


def test_a_cap_that_is_used_up_refuses_before_anything_is_drawn(url):
    PrivacyLedger(url).set_budget(PrivacyBudget.of("clinic", epsilon=0.5, delta=1e-5))
    asked = objective(url, budget=None)
    with pytest.raises(BudgetRefused):
        asked({"max_depth": 1})
    assert asked.scores_left == 4


def test_an_objective_that_lives_on_while_its_ledger_is_restored_draws_into_nobody_s_charge(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "ledger.db"
    url = f"sqlite:///{path}"
    for name in ("clinic", "ward"):
        PrivacyLedger(url).set_budget(PrivacyBudget.of(name, epsilon=5.0, delta=1e-5))
    shutil.copy(path, tmp_path / "copy.db")
    asked = objective(url)
    first = asked({"max_depth": 1})
    shutil.copy(tmp_path / "copy.db", path)
    accept(url, ())
    other = objective(url, dataset="ward", study="ward's")
    score = other({"max_depth": 3})
    with pytest.raises(LedgerDamaged, match="the running query was charged"):
        asked({"max_depth": 2})
    assert [step["score"] for step in other.release_.value["trajectory"]] == [score]
    again = objective(url)  # its spend is lost, and whoever accepted the copy answers for it: it is charged anew
    assert again({"max_depth": 1}) != first
    assert account(url).spent.epsilon(1e-6)[0] == pytest.approx(1.0, rel=1e-6)


# Many at once


def test_threads_that_ask_at_once_draw_each_question_once(url):
    asked = objective(url, n_scores=6)
    depths = [1, 2, 3, 4, 5, 6] * 4
    with ThreadPoolExecutor(8) as pool:
        scores = list(pool.map(lambda depth: asked({"max_depth": depth}), depths))
    assert len(set(zip(depths, scores, strict=True))) == 6
    assert (asked.scores_left, len(account(url).entries)) == (0, 1)


def _ask(url, answers, depths):
    asked = objective(url, n_scores=6)
    answers.put([(depth, asked({"max_depth": depth})) for depth in depths])


def test_six_processes_that_ask_at_once_draw_each_question_once(ledger_url):
    url = ledger_url
    PrivacyLedger(url).set_budget(PrivacyBudget.of("clinic", epsilon=5.0, delta=1e-5))
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    orders = [*itertools.permutations([1, 2, 3])]
    processes = [context.Process(target=_ask, args=(url, answers, order)) for order in orders]
    for process in processes:
        process.start()
    pairs = [pair for _ in processes for pair in answers.get(timeout=120)]
    for process in processes:
        process.join()
    assert len(pairs) == 6 * 3
    assert len(set(pairs)) == 3
    assert len(account(url).entries) == 1


def test_a_score_asked_in_the_very_moment_of_closing_is_in_the_release(url, monkeypatch):
    asked, other = objective(url), objective(url)
    asked({"max_depth": 1})
    compose, depths = asked.session_._release, iter((2, 3))

    def late():
        release = compose()
        for depth in itertools.islice(depths, 1):
            other({"max_depth": depth})
        return release

    monkeypatch.setattr(ScoreSession, "_release", lambda self: late() if self is asked.session_ else None)
    release = asked.close()
    assert [step["hyperparameters"]["max_depth"] for step in release.value["trajectory"]] == [1, 2, 3]


def test_a_score_asked_just_before_closing_is_not_drawn_after_it(url, monkeypatch):
    asked, other = objective(url), objective(url)
    asked({"max_depth": 1})
    check, train = ScoreSession._check_left, ScoreSession._train

    def closed_meanwhile(self, parameters):
        model = train(self, parameters)
        other.close()
        monkeypatch.setattr(ScoreSession, "_check_left", once)
        return model

    def once(self, draws):  # the look before the draw comes a moment too early
        monkeypatch.setattr(ScoreSession, "_check_left", check)

    monkeypatch.setattr(ScoreSession, "_train", closed_meanwhile)
    with pytest.raises(NoScoresLeft, match="closed after 1 of 4"):
        asked({"max_depth": 2})
    assert len(asked.session_._draws()) == 1


# A handle that says nothing


def test_a_handle_says_nothing_of_the_records(url):
    sensitive = Z.copy()
    sensitive[5, 1] = CANARY
    asked = PrivateObjective(
        GaussianNB(), epsilon=1.0, delta=1e-6, dataset="clinic", n_scores=2, budget=(5.0, 1e-5), ledger=url
    ).fit(X, Y, X_validation=sensitive, y_validation=TRUTH)
    asked({"var_smoothing": 1e-9})
    stored = pickle.dumps(asked)
    assert np.float64(CANARY).tobytes() not in stored
    assert str(CANARY) not in repr(asked) + repr(vars(pickle.loads(stored))) + repr(asked.session_)
    assert copy.deepcopy(asked) is asked
    assert copy.copy(asked) is asked
    for copied in (stored, cloudpickle.dumps(asked)):  # by which joblib hands it to its processes
        with pytest.raises(DpboError, match="holds no records"):
            pickle.loads(copied)({"var_smoothing": 1e-9})


# What a score is, exactly


class Scripted(InjectedNoise):
    """Draws that are written down beforehand, in steps."""

    def __init__(self, draws):
        super().__init__(np.random.default_rng(0))
        object.__setattr__(self, "draws", iter(draws))

    def draw_many(self, measurement, size, imitation):
        return np.array([next(self.draws) for _ in range(size)], dtype=np.int64)


def pairs(values, truth):
    """C₂ by hand: ties count one, pairs ranked right two."""
    return sum(
        2 * (values[i] > values[j]) + (values[i] == values[j])
        for i, j in itertools.product(range(len(truth)), repeat=2)
        if truth[i] == 1 and truth[j] == 0
    )


def pairs_right(depth, sensitive):
    """C₂ of four records under a tree of this depth."""
    rows, truth = sensitive
    tree = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, Y)
    return pairs(tree.predict_proba(rows)[:, 1], truth)


def neighbours():
    """Tables of four records, and all that differ from one of them in one record of a small universe.

    A lone positive that every model ranks above three negatives moves C₂ by all of Δ when it goes.
    """
    trees = [DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, Y) for depth in (1, 2, 6)]
    values = sum(tree.predict_proba(Z)[:, 1] for tree in trees)
    universe = [(Z[row], label) for row in (int(np.argmax(values)), 3, int(np.argmin(values))) for label in (0, 1)]
    high, low = universe[1], universe[4]
    for base in ([high, low, low, low], [universe[0], universe[3], universe[4], universe[1]]):
        for place in range(4):
            for record in universe:
                yield base, [*base[:place], record, *base[place + 1 :]]


def losses(law, number, epsilon):
    """The largest δ at ε, and the largest divergence of order 2, of two independent laws over all neighbours."""
    worst, order_two = 0.0, 0.0
    for D, E in neighbours():
        P, Q = law(D).ravel(), law(E).ravel()
        p, q = number(D), number(E)
        with np.errstate(all="ignore"):
            lost = np.where(P > 0.0, np.log(P) - np.log(Q), -np.inf)
            start = np.where(p > 0.0, np.log(p) - np.log(q), -np.inf)
        order = np.argsort(lost)
        above, of_other = ([*np.cumsum(one[order][::-1])[::-1], 0.0] for one in (P, Q))
        at = np.searchsorted(lost[order], epsilon - start, side="right")
        worst = max(worst, float((p * np.array(above)[at] - math.exp(epsilon) * q * np.array(of_other)[at]).sum()))
        both, of_number = (P > 0.0) & (Q > 0.0), (p > 0.0) & (q > 0.0)
        moments = (P[both] ** 2 / Q[both]).sum() * (p[of_number] ** 2 / q[of_number]).sum()
        order_two = max(order_two, math.log(float(moments)))
    return worst, order_two


def counted(depth, sensitive):
    """B = C₂ − ⌊rD⌋ of four records under a tree of this depth, with r = ¾."""
    return pairs_right(depth, sensitive) - 3 * all_pairs(sensitive) // 4


def all_pairs(sensitive):
    """D of four records."""
    truth = sensitive[1]
    return 2 * int((truth == 1).sum()) * int((truth == 0).sum())


def table(records):
    return np.array([row for row, _ in records]), np.array([label for _, label in records])


def test_the_exact_law_of_an_adaptive_loop_keeps_its_promise_on_every_neighbour(tmp_path):
    """The adversary asks for a second model that the first score decides; every outcome of both is enumerated."""
    epsilon, delta = 1.0, 1e-2
    one = session(
        f"sqlite:///{tmp_path}/law.db", OperatingSystemNoise(), table(next(neighbours())[0]), scoring="roc_auc"
    )
    mechanisms = one._mechanisms
    of_number = one.opened.price.number()
    assert [mechanism.sensitivity for mechanism in (of_number, *mechanisms)] == [6, 6, 6]  # 2(m − 1)
    reach = int(12 * mechanisms[0].scale)
    steps = np.arange(-reach, reach + 1)
    laws = [np.exp(-(steps**2) / (2 * mechanism.scale**2)) for mechanism in mechanisms]
    laws = [law / law.sum() for law in laws]
    first = {depth: {} for depth in (1, 2, 6)}

    def law(records):
        """Pr[y₁, y₂], (outcomes of the first, outcomes of the second), both from −reach on."""
        sensitive = table(records)
        sums = {depth: counted(depth, sensitive) for depth in first}
        p1 = np.roll(laws[0], sums[1])
        low, high = np.roll(laws[1], sums[2]), np.roll(laws[1], sums[6])
        return np.where(steps[:, None] < 4, p1[:, None] * low, p1[:, None] * high)

    far = np.arange(-int(12 * of_number.scale), int(12 * of_number.scale) + 1)
    bell = np.exp(-(far**2) / (2 * of_number.scale**2))

    def number(records):
        """Pr[D̂], which nothing that is asked can change."""
        return np.roll(bell / bell.sum(), all_pairs(table(records)))

    worst, order_two = losses(law, number, epsilon)
    assert 0.0 < worst <= delta
    bound = 2.0 * from_units(largest_rho(epsilon, delta))
    assert order_two <= bound * (1.0 + 1e-9)
    priced = sum((each.sensitivity / each.scale) ** 2 for each in (of_number, *mechanisms))
    assert priced <= bound * (1.0 + 1e-9)  # whatever moves by all of its sensitivity
    moved = [
        ((all_pairs(D) - all_pairs(E)) / of_number.scale) ** 2
        + ((counted(1, D) - counted(1, E)) / mechanisms[0].scale) ** 2
        + max(((counted(depth, D) - counted(depth, E)) / mechanisms[1].scale) ** 2 for depth in (2, 6))
        for D, E in ((table(here), table(there)) for here, there in neighbours())
    ]
    assert 0.9 * max(moved) <= order_two <= max(moved) * (1.0 + 1e-9)  # what is lost is what they move by


def test_a_score_is_the_exact_value_and_the_draw(tmp_path):
    """What the law above takes for granted, of the session itself: for scripted noise, on several tables."""
    tables = [table(records) for _, records in itertools.islice(neighbours(), 0, 48, 29)]
    for place, sensitive in enumerate(tables):
        for noise, depth in (((-7, 3), 2), ((9, 0), 6)):  # after so much that the number of pairs is the largest, 8
            url = f"sqlite:///{tmp_path}/{place}-{depth}.db"
            one = session(url, Scripted((10**6, *noise)), sensitive, scoring="roc_auc")
            first = (one.ask({"max_depth": 1}).value - 0.75) * 8
            second = (one.ask({"max_depth": 2 if first < 4 else 6}).value - 0.75) * 8
            assert round(first) == counted(1, sensitive) + noise[0]
            assert round(second) == counted(depth, sensitive) + noise[1]


def test_an_interval_covers_nine_times_in_ten(tmp_path):
    """Draws at twenty quantiles of the noise that is paid for: 18 intervals hold the exact score."""
    source = Scripted([])
    one = session(f"sqlite:///{tmp_path}/law.db", source, n_scores=20, estimator=GaussianNB(), epsilon=4.0)
    draws = np.rint(one._mechanisms[0].scale * norm.ppf((np.arange(20) + 0.5) / 20))
    object.__setattr__(source, "draws", iter(draws))
    covered = 0
    for smoothing in np.geomspace(1e-9, 0.1, 20).tolist():
        low, high = one.ask({"var_smoothing": smoothing}).interval
        exact = (GaussianNB(var_smoothing=smoothing).fit(X, Y).predict(Z) == TRUTH).mean()
        covered += low <= exact <= high
    assert covered == 18


# The best of what was asked


def test_without_noise_both_ways_find_the_best(tmp_path):
    depths = (1, 2, 3, 5)
    exact = {
        depth: (DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, Y).predict(Z) == TRUTH).mean()
        for depth in depths
    }
    assert len({*exact.values()}) > 1
    for share in (0.0, 0.5):
        one = session(
            f"sqlite:///{tmp_path}/{share}.db",
            InjectedNoise(np.random.default_rng(0), factor=0.0),
            n_scores=4,
            choice_share=share,
        )
        scores = {depth: one.ask({"max_depth": depth}).value for depth in depths}
        assert scores[one.best()["max_depth"]] == max(scores.values())


def test_the_choice_is_drawn_once_among_what_was_asked_until_then(url):
    asked = objective(url, choice_share=0.5, epsilon=4.0)
    for depth in (1, 2):
        asked({"max_depth": depth})
    assert asked.release_.value["trajectory"]  # looking draws nothing
    assert "choice" not in str(PrivacyLedger(url).drawn(asked.session_.opened.key.fingerprint).keys())
    best = asked.best()
    asked({"max_depth": 3})
    assert asked.best() == objective(url, choice_share=0.5, epsilon=4.0).best() == best
    assert asked.close().value["hyperparameters"] == best


def test_the_posterior_mean_believes_no_single_peak():
    """One lucky draw among many neighbours is noise, and the plateau's middle is said to be the best."""
    asked = [{"C": 10.0 ** (k / 10)} for k in range(40)]
    truth = np.array([0.9 - 0.4 * (k / 39 - 0.6) ** 2 for k in range(40)])
    rng, lost, by_peak = np.random.default_rng(3), 0.0, 0.0
    for _ in range(20):
        scores = truth + rng.normal(scale=0.05, size=40)
        mean = smoothed(asked, scores.tolist(), deviation=0.05, score_range=1.0).mean
        lost += truth.max() - truth[int(np.argmax(mean))]
        by_peak += truth.max() - truth[int(np.argmax(scores))]
    assert lost < 0.5 * by_peak


def test_many_questions_of_mixed_kinds_are_smoothed():
    asked = [{"C": float(1 + k % 17), "kernel": "rbf" if k % 2 else "linear", "gamma": None} for k in range(300)]
    asked += [{"C": k / 7.0, "shrink": True} for k in range(100)]
    said = smoothed(asked, [0.5 + 0.001 * k for k in range(400)], deviation=0.01, score_range=1.0)
    assert said.mean.shape == said.deviation.shape == (400,)
    assert np.isfinite(said.mean).all()
    assert (said.deviation > 0.0).all()


def test_delta_and_shares_that_cannot_be_are_refused(url):
    for settings, words in (
        ({"delta": 0.0}, "δ > 0"),
        ({"choice_share": 1.0}, "share"),
        ({"epsilon": 1e-7, "n_scores": 100_000}, "too small"),
    ):
        with pytest.raises(StudyInvalid, match=words):
            objective(url, **settings)
    with pytest.raises(StudyInvalid):
        ObjectiveSection(scores=10**7)


def test_nothing_asked_has_no_best_and_no_release(url):
    asked = objective(url)
    for of_nothing in (asked.best, asked.close, partial(getattr, asked, "release_")):
        with pytest.raises(StudyInvalid, match="no score was asked for"):
            of_nothing()
