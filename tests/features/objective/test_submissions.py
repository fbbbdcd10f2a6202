"""Models and predictions made elsewhere, on a private objective: one draw each, by name, under what they assume."""

import copy
import itertools
import math
import pickle
from collections import UserList, deque
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from test_private_objective import (
    CANARY,
    TRUTH,
    Scripted,
    X,
    Y,
    Z,
    account,
    all_pairs,
    neighbours,
    objective,
    pairs,
    session,
    table,
)
from unlisted_model import OfFirstColumn

from dpbo import PrivateObjective
from dpbo.features.objective.score_session import ScoreSession
from dpbo.tasks.reporting.pictures import draw
from dpbo_core import NoScoresLeft, PrivacyBudget, PrivacyLedger, StudyInvalid
from dpbo_core.errors import AssumptionNotAccepted
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.study.query import QueryContext

BOTH = ("public_models", "rowwise_predictions")


def without_noise(url, tables=(X, Y, Z, TRUTH), **settings):
    """An objective whose scores are exact."""
    PrivacyLedger(url).set_budget(PrivacyBudget.without_limit("open"))
    rows, classes, sensitive, truth = tables
    fixed = {"epsilon": 1.0, "delta": 1e-2, "dataset": "open", "n_scores": 4, "ledger": url, "accepts": BOTH}
    estimator = settings.pop("estimator", DecisionTreeClassifier())
    asked = PrivateObjective(estimator, **fixed | settings)
    return drawn_from(
        InjectedNoise(np.random.default_rng(0), factor=0.0),
        asked.fit(rows, classes, X_validation=sensitive, y_validation=truth),
    )


def drawn_from(source, asked):
    """The same objective, its noise from another source."""
    ledger = PrivacyLedger(asked.ledger)
    asked.session_ = ScoreSession(asked.session_.opened, QueryContext(ledger, source=source))
    return asked


# What a score is of


def frames():
    """Public and sensitive tables with a text column and texts for classes, whose order is not the model's."""
    make = lambda rows: pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "side": np.where(rows[:, 2] > 0, "l", "r")})  # noqa: E731
    words = np.array(["yes", "no"])
    return make(X), words[Y], make(Z), words[TRUTH]


class Backwards(DecisionTreeClassifier):
    """A tree whose classes are in the other order."""

    def fit(self, X, y):
        super().fit(X, y)
        self.own_, self.classes_ = self.classes_, self.classes_[::-1]
        return self

    def predict(self, X):
        return self.own_[self.tree_.predict(np.asarray(X, dtype=np.float32)).argmax(axis=1)]

    def predict_proba(self, X):
        return self.tree_.predict(np.asarray(X, dtype=np.float32))[:, ::-1]


MODELS = (GaussianNB(), SVC(), make_pipeline(StandardScaler(), LogisticRegression()), Backwards(max_depth=3))


@pytest.mark.parametrize("model", MODELS)
def test_a_fitted_model_is_scored_on_the_columns_own_values_and_the_studys_classes(url, model):
    model.fit(X, Y)
    assert without_noise(url).submit(model).value == pytest.approx((model.predict(Z) == TRUTH).mean(), abs=1e-6)
    if isinstance(model, SVC):
        values = model.decision_function(Z)
    else:
        values = model.predict_proba(Z)[:, list(model.classes_).index(1)]
        brier = float((1.0 - (values - TRUTH) ** 2).mean())
        assert without_noise(url, scoring="brier").submit(model).value == pytest.approx(brier, abs=1e-6)
    asked = without_noise(url, scoring="roc_auc", epsilon=100.0)
    D = 2 * int(TRUTH.sum()) * int((1 - TRUTH).sum())
    assert asked.submit(model).value * D == pytest.approx(pairs(values, TRUTH), rel=0.01)  # cells make ties


def test_a_model_of_a_data_frame_is_given_the_columns_it_was_fitted_on(url):
    rows, classes, sensitive, truth = frames()
    some = GaussianNB().fit(rows[["b", "a"]], classes)
    assert list(some.feature_names_in_) == ["b", "a"]
    exact = float((some.predict(sensitive[["b", "a"]]) == truth).mean())
    asked = without_noise(url, (rows, classes, sensitive, truth))
    assert asked.submit(some).value == pytest.approx(exact, abs=1e-6)


def test_a_regressor_is_scored_by_its_error(url):
    y, truth = X[:, 0] + X[:, 1], Z[:, 0] + Z[:, 1]
    forest = RandomForestRegressor(n_estimators=5, random_state=0)
    asked = without_noise(url, (X, y, Z, truth), estimator=forest, scoring="absolute_error", error_bound=2.0)
    model = RandomForestRegressor(n_estimators=9, random_state=1).fit(X, y)
    lost = np.minimum(np.abs(model.predict(Z) - truth), 2.0).mean()
    assert asked.submit(model).value == pytest.approx(2.0 - lost, abs=1e-6)
    lost = np.minimum(np.abs(truth + 0.5 - truth), 2.0).mean()
    assert asked.submit_predictions(truth + 0.5, name="half").value == pytest.approx(2.0 - lost, abs=1e-6)


def test_predictions_are_scored_entry_by_entry_and_a_bad_one_costs_its_record_alone(url):
    asked = without_noise(url)
    wrong = np.where(np.arange(90) < 9, 1 - TRUTH, TRUTH)
    assert asked.submit_predictions(wrong, name="nine wrong").value == pytest.approx(0.9, abs=1e-6)
    broken = [math.nan, None, "no class", *TRUTH[3:].tolist()]
    assert asked.submit_predictions(broken, name="three unread").value == pytest.approx(87 / 90, abs=1e-6)


def test_probabilities_of_several_classes_have_a_column_each(url):
    y, truth = (np.digitize(rows[:, 0], [-0.5, 0.5]) for rows in (X, Z))
    asked = without_noise(url, (X, y, Z, truth), scoring="brier", estimator=GaussianNB())
    model = GaussianNB().fit(X, y)
    probabilities = model.predict_proba(Z)
    by_name = asked.submit_predictions(probabilities, name="three columns").value
    assert asked.submit(model).value == pytest.approx(by_name, abs=1e-6)
    with pytest.raises(StudyInvalid, match="another shape"):
        asked.submit_predictions(probabilities[:, :2], name="two columns")
    assert asked.scores_left == 2


# One draw each


def test_the_same_again_costs_nothing_and_one_too_many_is_refused(url):
    asked = objective(url, n_scores=2, accepts=BOTH)
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, Y)
    first, second = asked.submit(tree), asked.submit_predictions(TRUTH, name="team 1")
    again = objective(url, n_scores=2, accepts=BOTH)
    assert (
        again.submit(DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, Y)) == asked.submit(tree) == first
    )
    assert again.submit_predictions(TRUTH, name="team 1") == second
    assert (asked.scores_left, len(account(url).entries)) == (0, 1)
    other = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, Y)
    for one_more in (lambda: asked.submit(other), lambda: asked.submit_predictions(TRUTH, name="team 2")):
        with pytest.raises(NoScoresLeft, match="all 2 scores"):
            one_more()
    release = asked.close()
    assert [[*step["hyperparameters"]] for step in release.value["trajectory"]] == [
        ["submitted model"],
        ["submitted predictions"],
    ]


def test_a_picture_shows_what_has_an_axis_beside_what_was_handed_in(url):
    asked = objective(url, accepts=BOTH)
    asked.submit_predictions(TRUTH, name="a")
    scores = [asked({"max_depth": depth}) for depth in (1, 4)]
    release = asked.close()
    past_its_end = {"score": 1.01, "interval": [0.8, 1.0]}
    value = {**release.value, "hyperparameters": {"max_depth": 4}, **past_its_end}
    figure = draw(replace(release, value=value))
    assert figure.axes[1].get_visible()
    assert figure.axes[1].collections[0].get_offsets().tolist() == [[1.0, scores[0]], [4.0, scores[1]]]
    assert max(map(len, figure.get_supxlabel().splitlines())) <= 120


def test_whether_a_score_is_drawn_is_decided_by_a_name_and_never_by_what_was_predicted(url):
    """Two tables that are equal for all records but one are two draws, or none, on every neighbour alike."""
    asked = objective(url, accepts=BOTH)
    first = asked.submit_predictions(TRUTH, name="a")
    assert asked.submit_predictions(1 - TRUTH, name="a") == first
    assert asked.scores_left == 3
    assert asked.submit_predictions(TRUTH, name="b") != first
    assert asked.scores_left == 2


# Under what each assumes


def test_each_assumption_is_asked_for_by_its_name_and_stated(url):
    listed, foreign = DecisionTreeClassifier(max_depth=1).fit(X, Y), OfFirstColumn().fit(X, Y)
    for place, (accepts, submit, name) in enumerate(
        [
            ((), lambda asked: asked.submit(listed), "public_models"),
            (("rowwise_predictions",), lambda asked: asked.submit(listed), "public_models"),
            (("public_models",), lambda asked: asked.submit(foreign), "rowwise_predictions"),
            (("public_models",), lambda asked: asked.submit_predictions(TRUTH, name="a"), "rowwise_predictions"),
        ]
    ):
        asked = objective(url, accepts=accepts, edition=str(place))
        with pytest.raises(AssumptionNotAccepted, match=name):
            submit(asked)
        assert asked.scores_left == 4
    assert PrivacyLedger(url).accounts("clinic") == ()
    asked = objective(url, accepts=BOTH)
    asked.submit(foreign)
    assert asked.guarantee_.assumptions == ("public_questions", *BOTH)
    assert asked.close().guarantee.assumptions == asked.guarantee_.assumptions


def test_a_cap_that_does_not_accept_it_refuses(url):
    PrivacyLedger(url).set_budget(PrivacyBudget.of("clinic", epsilon=5.0, delta=1e-5, accepts=("public_models",)))
    asked = objective(url, accepts=BOTH, budget=None)
    with pytest.raises(AssumptionNotAccepted, match="rowwise_predictions"):
        asked.submit_predictions(TRUTH, name="a")
    listed = objective(url, accepts=("public_models",), budget=None)
    listed.submit(DecisionTreeClassifier(max_depth=1).fit(X, Y))
    assert listed.guarantee_.assumptions == ("public_questions", "public_models")


def test_what_cannot_be_scored_is_a_message_and_costs_nothing(url):
    asked = objective(url, accepts=BOTH)
    for model, words in (
        (DecisionTreeClassifier(), "classes are not the study's"),
        (DecisionTreeClassifier().fit(X, Y + 1), "classes are not the study's"),
        (GaussianNB().fit(X[:, :2], Y), "cannot predict the public rows"),
    ):
        with pytest.raises(StudyInvalid, match=words):
            asked.submit(model)
    for predictions, name, words in (
        (TRUTH[1:], "a", "89"),
        (1, "a", "1 record"),
        (np.zeros((90, 3)), "a", "another shape"),
        (TRUTH, " ", "no name"),
        (TRUTH, "x" * 5000, "characters"),
    ):
        with pytest.raises(StudyInvalid, match=words):
            asked.submit_predictions(predictions, name=name)
    assert PrivacyLedger(url).accounts("clinic") == ()


def test_a_choice_on_exact_scores_and_a_private_number_of_records_are_refused(url):
    with pytest.raises(StudyInvalid, match="choice"):
        objective(url, accepts=BOTH, choice_share=0.3).submit(GaussianNB().fit(X, Y))
    public = pd.DataFrame(X, columns=list("abc"))
    settings = {"epsilon": 1.0, "delta": 1e-6, "dataset": "people", "budget": (5.0, 1e-5), "ledger": url}
    asked = PrivateObjective(GaussianNB(), n_scores=2, accepts=BOTH, person="who", n_persons=50, **settings)
    sensitive = pd.DataFrame(Z, columns=list("abc")).assign(who=np.arange(90))
    asked.fit(public, Y, X_validation=sensitive, y_validation=TRUTH)
    with pytest.raises(StudyInvalid, match="number is private"):
        asked.submit_predictions(TRUTH, name="a")
    asked.submit(GaussianNB().fit(public, Y))


# What it says of the records


def test_no_record_leaves_by_a_model_or_by_predictions(url, tmp_path):
    sensitive = Z.copy()
    sensitive[5, 1] = CANARY
    settings = {"epsilon": 1.0, "delta": 1e-6, "dataset": "clinic", "budget": (5.0, 1e-5), "ledger": url}
    asked = PrivateObjective(GaussianNB(), n_scores=4, accepts=BOTH, **settings)
    asked.fit(X, Y, X_validation=sensitive, y_validation=TRUTH)
    own = OfFirstColumn().fit(X, Y)
    before = pickle.dumps(own)
    score = asked.submit(own)
    assert pickle.dumps(own) == before  # so that the same again is the same
    assert asked.submit(own) == score
    asked.submit_predictions([CANARY if i == 5 else "secret" for i in range(90)], name="a")
    stored = (tmp_path / "ledger.db").read_bytes() + pickle.dumps(asked) + repr(asked).encode()
    assert np.float64(CANARY).tobytes() not in stored
    for planted in (str(CANARY), "secret"):
        assert planted.encode() not in stored


KEPT = SimpleNamespace(largest=0.0)  # an object, whose state is not put back


class Tells(OfFirstColumn):
    """Nobody's: it keeps the largest value that it was asked about, for its whole class, and says it at `what`."""

    def __init__(self, what="nothing"):
        self.what = what

    def tell(self, what):
        if object.__getattribute__(self, "__dict__").get("what") == what:
            print(KEPT.largest)
            raise ValueError(f"the largest is {KEPT.largest}")

    def __getattribute__(self, name):
        if name == "classes_":
            object.__getattribute__(self, "tell")("classes")
        return object.__getattribute__(self, name)

    def __deepcopy__(self, memo):
        self.tell("copy")
        return copy.copy(self)

    def fit(self, X, y):
        self.tell("fit")
        return super().fit(X, y)

    def predict(self, X):
        KEPT.largest = max(KEPT.largest, *(x for x in np.asarray(X)[:, 1] if x < 1000.0))
        self.tell("predict")
        return (np.asarray(X)[:, 0] > 0.0).astype(int)


def test_an_estimator_that_may_have_kept_a_record_says_nothing_more(url, capfd):
    KEPT.largest = 0.0
    sensitive = Z.copy()
    sensitive[5, 1] = CANARY
    asked = PrivateObjective(
        Tells(), epsilon=1.0, delta=1e-6, dataset="clinic", budget=(5.0, 1e-5), ledger=url, n_scores=4,
        accepts=BOTH,
    ).fit(X, Y, X_validation=sensitive, y_validation=TRUTH)  # fmt: skip
    with pytest.raises(StudyInvalid, match="the largest is"):  # of public rows alone
        asked.ask({"what": "fit"})
    asked.ask({"what": "nothing"})
    assert KEPT.largest == CANARY
    fitted = {what: Tells().fit(X, Y).set_params(what=what) for what in ("classes", "copy", "predict")}
    for ask in (
        *(partial(asked.ask, {"what": what}) for what in ("fit", "predict")),
        *(partial(asked.submit, model) for model in fitted.values()),
    ):
        with pytest.raises(StudyInvalid, match="public rows") as told:
            ask()
        assert str(CANARY) not in repr(vars(told.value)) + repr(told.value)
        assert told.value.__cause__ is told.value.__context__ is None
    assert str(CANARY) not in "".join(capfd.readouterr())
    assert asked.scores_left == 3


class Raises:
    """A prediction that fails on whatever is asked of it, and says what it knows."""

    def __getattribute__(self, name):
        raise RuntimeError(f"the record is {CANARY}")

    def __float__(self):
        raise RuntimeError(f"the record is {CANARY}")


def test_a_prediction_that_raises_costs_its_record_alone(url, capfd):
    asked = without_noise(url)
    values = [Raises(), *TRUTH[1:].tolist()]
    assert asked.submit_predictions(values, name="a").value == pytest.approx(89 / 90, abs=1e-6)
    assert str(CANARY) not in "".join(capfd.readouterr())


class Iterated:
    """A prediction whose own code, were it run, would be heard."""

    def __iter__(self):
        print(CANARY)
        return iter([0.5])

    __len__ = __array__ = __iter__


def in_an_array(values):
    cells = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        cells[place] = value
    return cells


def masked(values):
    return np.ma.masked_array([1 - TRUTH[0], *TRUTH[1:]], mask=[True, *[False] * (len(values) - 1)])


@pytest.mark.parametrize("kind", [list, tuple, deque, UserList, in_an_array, masked])
def test_what_one_prediction_is_decides_nothing_but_its_record_s_score(url, kind, capfd):
    asked = without_noise(url, n_scores=9)
    for bad in (None, [0.1, 0.2, 0.3], [], np.zeros((2, 2)), Iterated(), "", {}):
        values = kind([bad, *TRUTH[1:].tolist()])
        assert asked.submit_predictions(values, name=repr(bad)[:30]).value == pytest.approx(89 / 90, abs=1e-6)
    assert str(CANARY) not in "".join(capfd.readouterr())


# What it moves by, exactly


TREES = {depth: DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, Y) for depth in (2, 6)}


def value_of(record):
    """A prediction made elsewhere: a function of its record alone, its label too."""
    row, label = record
    return sum(float(tree.predict_proba([row])[0, 1]) for tree in TREES.values()) + 0.25 * label


def sums_of(records):
    rows, truth = table(records)
    by_tree = {depth: pairs(tree.predict_proba(rows)[:, 1], truth) for depth, tree in TREES.items()}
    return pairs([value_of(record) for record in records], truth), by_tree


def test_what_is_handed_in_moves_by_no_more_than_its_noise_covers_on_every_neighbour(url):
    """An entry moves with its record, and so does its label: the law of such a sum is in test_private_objective."""
    one = session(url, Scripted([]), table(next(neighbours())[0]), scoring="roc_auc", accepts=BOTH)
    most = max(abs(sums_of(here)[0] - sums_of(there)[0]) for here, there in neighbours())
    assert [most, most] == [mechanism.sensitivity for mechanism in one._mechanisms] == [6, 6]  # 2(m − 1)


def test_a_score_of_what_is_handed_in_is_the_exact_value_and_the_draw(tmp_path):
    """What the law of an adaptive loop takes for granted, for scripted noise on two tables."""
    for place, (_, records) in enumerate(itertools.islice(neighbours(), 0, 24, 20)):
        rows, truth = table(records)
        asked = without_noise(
            f"sqlite:///{tmp_path}/{place}.db", (X, Y, rows, truth), scoring="roc_auc", n_scores=3, delta=1e-2
        )
        drawn_from(Scripted((10**6, -7, 3, 9)), asked)  # by the first the number of pairs is the largest, 8
        scores = [asked.submit_predictions([value_of(record) for record in records], name="a")]
        scores += [asked.submit(tree) for tree in TREES.values()]
        first, by_tree = sums_of(records)
        steps = [round((score.value - 0.75) * 8) + 3 * all_pairs((rows, truth)) // 4 for score in scores]
        assert steps == [first - 7, by_tree[2] + 3, by_tree[6] + 9]
