"""Classifiers and regressors on the list, by the name they are imported by.

Not on it, among others: `NearestCentroid`, to which a sparse table without any number in it goes another way, and
nothing that it holds once it is fitted says whether its tables are sparse.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dpbo_core.models.listed.entry import DISTRIBUTIONS, LIGHTGBM, READ, SCIKIT_LEARN, XGBOOST, Listed

# The arguments that several classes share. A matrix product adds up each entry from one row and one column, in an
# order that the shapes decide; argmax, exp, softmax and comparisons then work on one row.
_PRODUCT = "the row times fitted coefficients, then elementwise and within the row"
_TREE = "the row walks down fitted trees by itself; the leaves' values are added in the order of the trees"
_KERNEL = "the kernel between the row and fitted points, then a product with fitted coefficients"
_BAYES = "sums over the features of the row, class by class"
_NEIGHBOURS = "the fitted points nearest to the row vote; ties are settled by the row's own distances"
_PARTS = "calls each part on the same rows, and joins what they say row by row; the parts are looked at too"
_METRICS = ("minkowski", "euclidean", "manhattan", "chebyshev", "cosine", "l1", "l2", "cityblock")
_NEAREST = {"metric": _METRICS, "weights": ("uniform", "distance", None)}
_DENSE = (
    "_fit_X",
)  # of sparse tables, one without any number in it goes another way, which settles ties otherwise
_KERNELS = {"kernel": ("linear", "poly", "rbf", "sigmoid", "laplacian", "cosine", "polynomial")}
_BOOSTED = "the row walks down fitted trees by itself, on one thread; the leaves' values are added tree by tree"
_ON_CPU = ("cpu",)
_LIGHTGBM = Listed(
    _BOOSTED,
    {"device": _ON_CPU, "device_type": _ON_CPU, "pred_early_stop": (False,)},
    package=LIGHTGBM,
)
_XGBOOST = Listed(
    _BOOSTED,
    {
        "booster": (None, "gbtree", "dart"),  # gblinear goes another way, through a cache of tables
        "device": (None, "cpu"),
        "enable_categorical": (False,),
        "feature_types": (None,),
        "kwargs": (None, {}),
    },
    package=XGBOOST,
)
_LIBSVM = {"kernel": ("linear", "poly", "rbf", "sigmoid")}

PREDICTORS: Mapping[str, Listed] = {
    # linear classifiers
    "sklearn.linear_model.LogisticRegression": Listed(_PRODUCT),
    "sklearn.linear_model.LogisticRegressionCV": Listed(_PRODUCT),
    "sklearn.linear_model.Perceptron": Listed(_PRODUCT),
    "sklearn.linear_model.PassiveAggressiveClassifier": Listed(_PRODUCT),
    "sklearn.linear_model.RidgeClassifier": Listed(_PRODUCT),
    "sklearn.linear_model.RidgeClassifierCV": Listed(_PRODUCT),
    "sklearn.linear_model.SGDClassifier": Listed(_PRODUCT),
    "sklearn.svm.LinearSVC": Listed(_PRODUCT),
    "sklearn.discriminant_analysis.LinearDiscriminantAnalysis": Listed(_PRODUCT),
    "sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis": Listed(
        "for each class the centred row times a fitted rotation, squared and added up within the row"
    ),
    # linear regressors
    "sklearn.linear_model.LinearRegression": Listed(_PRODUCT),
    "sklearn.linear_model.Ridge": Listed(_PRODUCT),
    "sklearn.linear_model.RidgeCV": Listed(_PRODUCT),
    "sklearn.linear_model.Lasso": Listed(_PRODUCT),
    "sklearn.linear_model.LassoCV": Listed(_PRODUCT),
    "sklearn.linear_model.LassoLars": Listed(_PRODUCT),
    "sklearn.linear_model.LassoLarsCV": Listed(_PRODUCT),
    "sklearn.linear_model.LassoLarsIC": Listed(_PRODUCT),
    "sklearn.linear_model.Lars": Listed(_PRODUCT),
    "sklearn.linear_model.LarsCV": Listed(_PRODUCT),
    "sklearn.linear_model.ElasticNet": Listed(_PRODUCT),
    "sklearn.linear_model.ElasticNetCV": Listed(_PRODUCT),
    "sklearn.linear_model.OrthogonalMatchingPursuit": Listed(_PRODUCT),
    "sklearn.linear_model.BayesianRidge": Listed(_PRODUCT),
    "sklearn.linear_model.ARDRegression": Listed(_PRODUCT),
    "sklearn.linear_model.HuberRegressor": Listed(_PRODUCT),
    "sklearn.linear_model.TheilSenRegressor": Listed(_PRODUCT),
    "sklearn.linear_model.QuantileRegressor": Listed(_PRODUCT),
    "sklearn.linear_model.SGDRegressor": Listed(_PRODUCT),
    "sklearn.linear_model.PassiveAggressiveRegressor": Listed(_PRODUCT),
    "sklearn.linear_model.PoissonRegressor": Listed(_PRODUCT),
    "sklearn.linear_model.GammaRegressor": Listed(_PRODUCT),
    "sklearn.linear_model.TweedieRegressor": Listed(_PRODUCT),
    "sklearn.svm.LinearSVR": Listed(_PRODUCT),
    "sklearn.cross_decomposition.PLSRegression": Listed(_PRODUCT),
    # trees and what is made of them
    "sklearn.tree.DecisionTreeClassifier": Listed(_TREE),
    "sklearn.tree.DecisionTreeRegressor": Listed(_TREE),
    "sklearn.tree.ExtraTreeClassifier": Listed(_TREE),
    "sklearn.tree.ExtraTreeRegressor": Listed(_TREE),
    "sklearn.ensemble.RandomForestClassifier": Listed(_TREE),
    "sklearn.ensemble.RandomForestRegressor": Listed(_TREE),
    "sklearn.ensemble.ExtraTreesClassifier": Listed(_TREE),
    "sklearn.ensemble.ExtraTreesRegressor": Listed(_TREE),
    "sklearn.ensemble.GradientBoostingClassifier": Listed(_TREE),
    "sklearn.ensemble.GradientBoostingRegressor": Listed(_TREE),
    "sklearn.ensemble.HistGradientBoostingClassifier": Listed(_TREE),
    "sklearn.ensemble.HistGradientBoostingRegressor": Listed(_TREE),
    # boosted trees of other packages, under the names that they are imported by and under those that they give
    **dict.fromkeys(("lightgbm.LGBMClassifier", "lightgbm.sklearn.LGBMClassifier"), _LIGHTGBM),
    **dict.fromkeys(("lightgbm.LGBMRegressor", "lightgbm.sklearn.LGBMRegressor"), _LIGHTGBM),
    **dict.fromkeys(("xgboost.XGBClassifier", "xgboost.sklearn.XGBClassifier"), _XGBOOST),
    **dict.fromkeys(("xgboost.XGBRegressor", "xgboost.sklearn.XGBRegressor"), _XGBOOST),
    **dict.fromkeys(("xgboost.XGBRFClassifier", "xgboost.sklearn.XGBRFClassifier"), _XGBOOST),
    **dict.fromkeys(("xgboost.XGBRFRegressor", "xgboost.sklearn.XGBRFRegressor"), _XGBOOST),
    # kernels and neighbours
    "sklearn.svm.SVC": Listed(_KERNEL + ", one row after another in libsvm", _LIBSVM),
    "sklearn.svm.NuSVC": Listed(_KERNEL + ", one row after another in libsvm", _LIBSVM),
    "sklearn.svm.SVR": Listed(_KERNEL + ", one row after another in libsvm", _LIBSVM),
    "sklearn.svm.NuSVR": Listed(_KERNEL + ", one row after another in libsvm", _LIBSVM),
    "sklearn.kernel_ridge.KernelRidge": Listed(_KERNEL, _KERNELS),
    "sklearn.gaussian_process.GaussianProcessRegressor": Listed(_KERNEL),
    "sklearn.gaussian_process.GaussianProcessClassifier": Listed(
        _KERNEL + "; a triangular solve has one right-hand side a row"
    ),
    "sklearn.neighbors.KNeighborsClassifier": Listed(_NEIGHBOURS, _NEAREST, dense=_DENSE),
    "sklearn.neighbors.KNeighborsRegressor": Listed(_NEIGHBOURS, _NEAREST, dense=_DENSE),
    # Bayes, networks, constants
    "sklearn.naive_bayes.GaussianNB": Listed(_BAYES),
    "sklearn.naive_bayes.BernoulliNB": Listed(_BAYES),
    "sklearn.naive_bayes.MultinomialNB": Listed(_BAYES),
    "sklearn.naive_bayes.ComplementNB": Listed(_BAYES),
    "sklearn.naive_bayes.CategoricalNB": Listed(_BAYES + ", looked up in fitted tables"),
    "sklearn.neural_network.MLPClassifier": Listed(_PRODUCT + ", layer after layer"),
    "sklearn.neural_network.MLPRegressor": Listed(_PRODUCT + ", layer after layer"),
    "sklearn.dummy.DummyClassifier": Listed(
        "a fitted constant", {"strategy": ("prior", "most_frequent", "constant")}
    ),
    "sklearn.dummy.DummyRegressor": Listed("a fitted constant"),
    # what is made of other estimators
    "sklearn.pipeline.Pipeline": Listed("hands the rows from step to step; the steps are looked at too"),
    "sklearn.ensemble.AdaBoostClassifier": Listed(_PARTS),
    "sklearn.ensemble.AdaBoostRegressor": Listed(_PARTS),
    "sklearn.ensemble.BaggingClassifier": Listed(_PARTS),
    "sklearn.ensemble.BaggingRegressor": Listed(_PARTS),
    "sklearn.ensemble.StackingClassifier": Listed(_PARTS),
    "sklearn.ensemble.StackingRegressor": Listed(_PARTS),
    "sklearn.ensemble.VotingClassifier": Listed(_PARTS),
    "sklearn.ensemble.VotingRegressor": Listed(_PARTS),
    "sklearn.multiclass.OneVsRestClassifier": Listed(_PARTS),
    "sklearn.multiclass.OneVsOneClassifier": Listed(_PARTS),
    "sklearn.calibration.CalibratedClassifierCV": Listed(_PARTS, {"method": ("sigmoid", "isotonic")}),
    "sklearn.compose.TransformedTargetRegressor": Listed(_PARTS),
    "sklearn.frozen.FrozenEstimator": Listed("calls the same verb of what it wraps, which is looked at too"),
}


def version_was_read(package: str = SCIKIT_LEARN) -> str:
    """What is wrong with the installed package; "" where the list's sentences were read from its code."""
    installed = next(filter(None, map(_installed, DISTRIBUTIONS.get(package, (package,)))), "")
    try:
        number = tuple(int(part) for part in installed.split(".")[:2])
    except ValueError:
        return f"a {package} without a version"
    first, last = READ[package]
    if first <= number <= last:
        return ""
    return f"{package} {installed}, whose code was not read for the list of known classes"


@cache  # read from the disk once: what a process has imported stays what it is
def _installed(distribution: str) -> str:
    """Its version; "" where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def unlisted_name(path: str, params: Mapping[str, Any], axes: Mapping[str, Iterable[Any]]) -> str:
    """Why an estimator named in a study file is not known to predict each row alone; "" where it is.

    Args:
        path: of its class.
        params: its fixed parameters.
        axes: the values of each categorical axis; what a number can do to an entry is nothing.
    """
    entry = PREDICTORS.get(path)
    if entry is None:
        return path
    refused = entry.refusal(params)
    for name, values in axes.items():
        for value in values:
            refused = refused or entry.refusal({name: value})
    wrong = version_was_read() or version_was_read(entry.package)
    return wrong or (f"{path.rpartition('.')[2]} with {refused}" if refused else "")
