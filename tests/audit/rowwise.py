"""Every class on the list, fitted, on neighbouring tables: no other record's score may move, by its last bit even.

| symbol | name here | meaning | shape |
|---|---|---|---|
| V, V′ | `table`, `other` | neighbouring tables: V′ has another row j | (m, d) |
| s_i(V) | `scores` | what record i scores beside the others of V | (m,) |
| — | `moved` | the records i ≠ j with s_i(V) ≠ s_i(V′) | indices |

The rows put in are those that an adversary would choose: values that no public row holds, the constants that an
estimator was told of (a sentinel of an imputer, say), the ends of double precision, unknown categories.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.estimator_allowlist.classes import PREDICTORS, TRANSFORMERS
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.models.scores.brier import Brier
from dpbo_core.models.scores.kinds import RecordScore
from dpbo_core.models.scores.regression_error import RegressionError

D, N = 4, 80
SIZES, NEIGHBOURS = (2, 12, 70), 10  # neighbours of one table
FAR = (0.0, -0.0, 3.5, -9.0, 1.0, 1e8, -1e8, 1e20, -1e20, 3e38, -3e38, 5e-324, 1e-30, 2.0**31, 2.0**53, 1e6)


def public(seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Positive rows (N, D) with a column of categories; classes in three; targets."""
    rng = np.random.default_rng(seed)
    X = np.abs(rng.normal(size=(N, D)))
    X[:, 3] = rng.integers(0, 4, N)
    return X, (X[:, 0] > X[:, 1]).astype(np.int64) + (X[:, 2] > 1.2), X[:, 0] + X[:, 1] ** 2 + 0.1


def examples() -> Iterator[tuple[str, Callable[[], Any]]]:
    """(path, an unfitted estimator made of that class) for every class on the list, some in several forms."""
    from sklearn import preprocessing
    from sklearn.feature_selection import f_classif
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    linear, tree, ridge = LogisticRegression(max_iter=50), DecisionTreeClassifier(max_depth=3), Ridge()
    scaled, spline = preprocessing.StandardScaler(), preprocessing.SplineTransformer(3)
    smooth = ConstantKernel() * RBF() + WhiteKernel() + Matern() + DotProduct()
    unknown, few = preprocessing.OneHotEncoder(handle_unknown="ignore"), {"n_estimators": 3}
    given: dict[str, list[dict[str, Any]]] = {
        "LogisticRegressionCV": [{"cv": 2, "Cs": 2}],
        "SGDClassifier": [{}, {"loss": "log_loss"}, {"loss": "modified_huber"}],
        "QuadraticDiscriminantAnalysis": [{"reg_param": 0.1}],
        "LassoLarsCV": [{"cv": 2}], "LassoCV": [{"cv": 2}], "ElasticNetCV": [{"cv": 2}], "LarsCV": [{"cv": 2}],
        "OrthogonalMatchingPursuit": [{"n_nonzero_coefs": 2}],
        "TheilSenRegressor": [{"max_subpopulation": 50, "max_iter": 5}],
        "TweedieRegressor": [{}, {"power": 1.5}],
        "RandomForestClassifier": [few], "RandomForestRegressor": [few], "ExtraTreesClassifier": [few],
        "ExtraTreesRegressor": [few], "GradientBoostingClassifier": [few, {**few, "init": linear}],
        "GradientBoostingRegressor": [few, {**few, "loss": "huber"}],
        "HistGradientBoostingClassifier": [{"max_iter": 3}, {"max_iter": 3, "categorical_features": [3]}],
        "HistGradientBoostingRegressor": [{"max_iter": 3}, {"max_iter": 3, "loss": "poisson"}],
        "SVC": [{}, {"kernel": "poly"}, {"kernel": "linear", "decision_function_shape": "ovo"}],
        "NuSVC": [{"nu": 0.1}],
        "KernelRidge": [{"kernel": "rbf"}, {"kernel": "laplacian"}],
        "GaussianProcessRegressor": [{}, {"kernel": smooth, "optimizer": None}],
        "GaussianProcessClassifier": [
            {"optimizer": None}, {"kernel": RBF(), "optimizer": None, "multi_class": "one_vs_one"},
        ],
        "KNeighborsClassifier": [
            {}, {"algorithm": "brute", "weights": "distance"}, {"algorithm": "ball_tree", "metric": "manhattan"},
            {"metric": "cosine"},
        ],
        "KNeighborsRegressor": [{}, {"algorithm": "brute", "metric": "chebyshev"}],
        "CategoricalNB": [{"min_categories": 40}],
        "MLPClassifier": [{"hidden_layer_sizes": (5,), "max_iter": 20}, {"activation": "tanh", "max_iter": 5}],
        "MLPRegressor": [{"hidden_layer_sizes": (5,), "max_iter": 20}],
        "DummyClassifier": [{"strategy": "prior"}, {"strategy": "most_frequent"}],
        "Pipeline": [{"steps": [("a", scaled), ("b", "passthrough"), ("c", linear)]}],
        "AdaBoostClassifier": [few, {**few, "estimator": linear}], "AdaBoostRegressor": [few],
        "BaggingClassifier": [few, {**few, "estimator": linear, "max_features": 2}], "BaggingRegressor": [few],
        "StackingClassifier": [{"estimators": [("a", linear), ("b", tree)], "cv": 2, "passthrough": True}],
        "StackingRegressor": [{"estimators": [("a", ridge)], "cv": 2, "final_estimator": DecisionTreeRegressor()}],
        "VotingClassifier": [
            {"estimators": [("a", linear), ("b", tree)]},
            {"estimators": [("a", linear), ("b", tree)], "voting": "soft", "weights": [1, 2]},
        ],
        "VotingRegressor": [{"estimators": [("a", ridge), ("b", DecisionTreeRegressor())]}],
        "OneVsRestClassifier": [{"estimator": linear}], "OneVsOneClassifier": [{"estimator": linear}],
        "CalibratedClassifierCV": [{"cv": 2}, {"estimator": tree, "cv": 2, "method": "isotonic"}],
        "TransformedTargetRegressor": [{}, {"regressor": ridge, "func": np.log1p, "inverse_func": np.expm1}],
        # transformers, each before a linear model
        "KBinsDiscretizer": [{"n_bins": 3}, {"n_bins": 3, "encode": "ordinal", "strategy": "uniform"}],
        "QuantileTransformer": [{"n_quantiles": 20}, {"n_quantiles": 20, "output_distribution": "normal"}],
        "SplineTransformer": [
            {"n_knots": 3, "extrapolation": how} for how in ("constant", "linear", "continue", "error")
        ],
        "OneHotEncoder": [
            {}, {"handle_unknown": "ignore"}, {"handle_unknown": "infrequent_if_exist", "min_frequency": 5},
        ],
        "OrdinalEncoder": [{}, {"handle_unknown": "use_encoded_value", "unknown_value": -1}],
        "TargetEncoder": [{"cv": 2}],
        "SimpleImputer": [{}, {"missing_values": -9.0}, {"missing_values": 1.0, "add_indicator": True}],
        "MissingIndicator": [{"missing_values": 1.0, "features": "all"}, {"missing_values": 1.0}],
        "Normalizer": [{}, {"norm": "max"}],
        "FunctionTransformer": [{}, {"func": np.log1p}, {"func": np.sqrt}],
        "PCA": [{"n_components": 2, "whiten": True}], "TruncatedSVD": [{}],
        "GaussianRandomProjection": [{"n_components": 2}], "SparseRandomProjection": [{"n_components": 2}],
        "NeighborhoodComponentsAnalysis": [{"max_iter": 5}],
        "RBFSampler": [{"n_components": 5}],
        "Nystroem": [{"n_components": 5}, {"kernel": "laplacian", "n_components": 5}],
        "KMeans": [{"n_clusters": 3, "n_init": 1}], "MiniBatchKMeans": [{"n_clusters": 3, "n_init": 1}],
        "RandomTreesEmbedding": [few],
        "SelectKBest": [{"k": 2}, {"score_func": f_classif, "k": 1}],
        "SelectFromModel": [{"estimator": tree}], "RFE": [{"estimator": linear, "n_features_to_select": 2}],
        "ColumnTransformer": [
            {"transformers": [("a", scaled, [0, 1]), ("b", unknown, [3])], "remainder": "passthrough"},
            {"transformers": [("a", spline, slice(0, 2))]},
        ],
        "FeatureUnion": [{"transformer_list": [("a", scaled), ("b", spline)]}],
    }  # fmt: skip
    for path, kind in kinds().items():
        name = path.rpartition(".")[2]
        for params in given.get(name, [{}]):
            if name == "FrozenEstimator":
                X, y, _ = public()
                yield (
                    path,
                    lambda kind=kind, X=X, y=y: kind(make_pipeline(scaled, tree).fit(X, y)),
                )
            elif path in TRANSFORMERS:
                yield (
                    path,
                    lambda kind=kind, params=params: make_pipeline(kind(**params), linear),
                )
            else:
                yield path, lambda kind=kind, params=params: kind(**params)


def kinds() -> dict[str, type[Any]]:
    """The classes on the list that this scikit-learn has.

    Those of other packages are in tests/frameworks, those of texts in tests/data/test_named_columns.py.
    """
    from dpbo_core.models.estimator_allowlist.inspection import imported

    paths = [path for path in (*PREDICTORS, *TRANSFORMERS) if path.startswith("sklearn.") and ".text." not in path]
    found = {path: imported(path) for path in paths}
    return {path: kind for path, kind in found.items() if kind is not None}


def trained(estimator: Any) -> tuple[FittedEstimator, tuple[RecordScore, ...], NDArray[Any]]:
    """It, fitted on the public rows, the scores that it can be scored by, and labels for them."""
    from sklearn.base import is_regressor

    X, classes, targets = public()
    regression = is_regressor(estimator)
    truth = targets if regression else classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X, truth)
    if regression:
        return FittedEstimator(estimator, X[0]), (RegressionError(1e300, 1),), truth
    probable = hasattr(estimator, "predict_proba")
    return FittedEstimator(estimator, X[0]), (Brier(), Correct()) if probable else (Correct(),), truth


def constants(estimator: Any) -> list[float]:
    """The numbers that an estimator was told of."""
    told = estimator.get_params(deep=True).values()
    return [float(value) for value in told if type(value) in (int, float) and abs(value) < 1e300]


def moved(estimator: Any, *, pairs: int, seed: int = 0) -> tuple[int, int]:
    """(Neighbouring pairs tried, those in which another record's score moved): `estimator` is fitted here."""
    model, scores, truth = trained(estimator)
    rng = np.random.default_rng(seed)
    X, _, _ = public()
    cells = np.array([*FAR, *constants(estimator), *(float(np.nextafter(c, 9)) for c in constants(estimator))])
    wrong = 0
    for pair in range(pairs):
        if pair % NEIGHBOURS == 0:  # a new table, of another size; it holds a strange row already
            size, score = SIZES[pair // NEIGHBOURS % len(SIZES)], scores[pair // NEIGHBOURS % len(scores)]
            table, labels = X[rng.integers(0, N, size)], truth[rng.integers(0, N, size)]
            table[rng.integers(size)] = rng.choice(cells, D)
            before = model.scores(table, labels, score)
        other, j = table.copy(), int(rng.integers(size))
        held = rng.random(D) < rng.choice([0.0, 0.3, 0.8])
        other[j] = np.where(held, X[rng.integers(N)], rng.choice(cells, D))
        after = model.scores(other, labels, score)
        same = (before == after) | (np.isnan(before) & np.isnan(after))
        wrong += not bool(np.delete(same, j).all())
    return pairs, wrong


def planted() -> dict[str, Callable[[], Any]]:
    """Entries that the list must never hold: each moves another record's score, and the neighbours must show it."""
    import zoo
    from sklearn.decomposition import NMF
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.svm import SVC

    def imputer():
        return IterativeImputer(missing_values=2.0, sample_posterior=True, max_iter=2)

    return {
        "IterativeImputer": lambda: make_pipeline(imputer(), LogisticRegression()),
        "NMF": lambda: make_pipeline(FunctionTransformer(np.abs), NMF(2, max_iter=300), LogisticRegression()),
        "a mean of the batch at a value that no public row holds": zoo.BatchMeanAtTheTrigger,
        "a memory": zoo.Remembers,
        "a foreign transformer in a Pipeline": lambda: make_pipeline(zoo.ShiftsAtTheTrigger(), SVC()),
        "labels whose equality is decided by the batch": zoo.Objects,
    }


def figures(name: str, forms: list[int], pairs: int) -> tuple[str, int, int, int]:
    """(name, forms, pairs, moved) of some of the list's forms, or of a planted entry where there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        makes = [make for i, (_, make) in enumerate(examples()) if i in forms] or [planted()[name]]
        results = [moved(make(), pairs=pairs) for make in makes]
    return name, len(makes), sum(tried for tried, _ in results), sum(wrong for _, wrong in results)
