"""The allowlist: every class that is known to predict each row from that row alone, by import path, and the reason.

"A function of the row alone" means: what comes out for row i is decided by row i, its place, the number of rows and
what was fitted, and by no value in another row; and a batch fails only where one of its rows fails alone. So at a
fixed place in a table of a fixed size one record has no hand on the outcome of another, to the last bit.

Not on it, among others: `NearestCentroid`, to which a sparse table without any number in it goes another way, and
nothing that it holds once it is fitted says whether its tables are sparse; `IterativeImputer` and `KNNImputer`,
which gather the rows that lack a value and compute on that smaller table; `PowerTransformer`, which takes powers of
the positive values together; `NMF`, which iterates over all rows until the largest is done.

A part (`PARTS`) has no verb that a study calls; it is used by the class that holds it, in the way that class's
sentence says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCIKIT_LEARN, LIGHTGBM, XGBOOST = "scikit-learn", "lightgbm", "xgboost"
REVIEWED_VERSIONS = {  # the first and the last version of each package whose code the sentences were read from
    SCIKIT_LEARN: ((1, 6), (1, 9)),
    LIGHTGBM: ((4, 6), (4, 7)),
    XGBOOST: ((3, 0), (3, 2)),
}
DISTRIBUTIONS = {XGBOOST: ("xgboost", "xgboost-cpu")}  # under which names a package is installed, where not its own


@dataclass(frozen=True)
class AllowlistEntry:
    """The reason why one class predicts each row from that row alone, and the parameters under which it holds."""

    because: str  # why its predict, predict_proba, decision_function and transform are functions of the row alone
    # the values that a parameter may take for this to hold; a parameter that is not named may have any value that
    # is itself plain data or on the list
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    dense: tuple[str, ...] = ()  # attributes that the sentence does not hold for when they are a sparse matrix
    # it is not asked once the estimator is fitted, or it is compiled and holds numbers alone: what it holds is not
    # looked at
    closed: bool = False
    compiled: bool = False  # what it holds is seen in what it pickles, not in its attributes
    package: str = SCIKIT_LEARN  # whose class it is

    def refusal(self, parameters: Mapping[str, Any]) -> str | None:
        """Return, as text, the first parameter whose value may make predictions depend on other rows; None if none.

        `only` has the allowed values of a parameter, and a parameter that it does not name may have any. What is
        named in `dense` must not be a sparse matrix, which has the attribute `indptr`.
        """
        for name, allowed in self.only.items():
            value = parameters.get(name)  # types are compared first, so that no foreign code is called
            if name in parameters and not any(type(value) is type(one) and value == one for one in allowed):
                is_plain = type(value) in (str, int, float, bool, type(None))
                return f"{name} = {repr(value) if is_plain else f'a {type(value).__name__}'}"
        for name in self.dense:
            if hasattr(parameters.get(name), "indptr"):
                return "sparse training rows"
        return None


def _list(module: str, names: str, entry: AllowlistEntry) -> dict[str, AllowlistEntry]:
    """A part of the allowlist: the same `entry` for every class name in `names`, a text split at its spaces."""
    return {f"{module}.{name}": entry for name in names.split()}


# The arguments that several classes share. A matrix product adds up each entry from one row and one column, in an
# order that the shapes decide; argmax, exp, softmax and comparisons then work on one row.
_PRODUCT = AllowlistEntry("the row times fitted coefficients, then elementwise and within the row")
_LAYERS = AllowlistEntry(_PRODUCT.because + ", layer after layer")
_TREE = AllowlistEntry(
    "the row walks down fitted trees by itself; the leaves' values are added in the order of the trees"
)
_KERNEL = "the kernel between the row and fitted points, then a product with fitted coefficients"
_LIBSVM = AllowlistEntry(
    _KERNEL + ", one row after another in libsvm", {"kernel": ("linear", "poly", "rbf", "sigmoid")}
)
_BAYES = "sums over the features of the row, class by class"
_METRICS = ("minkowski", "euclidean", "manhattan", "chebyshev", "cosine", "l1", "l2", "cityblock")
_NEIGHBOURS = AllowlistEntry(
    "the fitted points nearest to the row vote; ties are settled by the row's own distances",
    {"metric": _METRICS, "weights": ("uniform", "distance", None)},
    dense=("_fit_X",),  # of sparse tables, one without any number in it settles ties otherwise
)
_CALLS_PARTS = "calls each part on the same rows, and joins what they say row by row; the parts are looked at too"
_BOOSTED = "the row walks down fitted trees by itself, on one thread; the leaves' values are added tree by tree"
_CPU_DEVICES = ("cpu",)
_LIGHTGBM = AllowlistEntry(
    _BOOSTED, {"device": _CPU_DEVICES, "device_type": _CPU_DEVICES, "pred_early_stop": (False,)}, package=LIGHTGBM
)
_XGBOOST = AllowlistEntry(
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

PREDICTORS: Mapping[str, AllowlistEntry] = {
    **_list(
        "sklearn.linear_model",
        "LogisticRegression LogisticRegressionCV Perceptron PassiveAggressiveClassifier RidgeClassifier "
        "RidgeClassifierCV SGDClassifier LinearRegression Ridge RidgeCV Lasso LassoCV LassoLars LassoLarsCV "
        "LassoLarsIC Lars LarsCV ElasticNet ElasticNetCV OrthogonalMatchingPursuit BayesianRidge ARDRegression "
        "HuberRegressor TheilSenRegressor QuantileRegressor SGDRegressor PassiveAggressiveRegressor "
        "PoissonRegressor GammaRegressor TweedieRegressor",
        _PRODUCT,
    ),
    **_list("sklearn.svm", "LinearSVC LinearSVR", _PRODUCT),
    **_list("sklearn.discriminant_analysis", "LinearDiscriminantAnalysis", _PRODUCT),
    "sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis": AllowlistEntry(
        "for each class the centred row times a fitted rotation, squared and added up within the row"
    ),
    **_list("sklearn.cross_decomposition", "PLSRegression", _PRODUCT),
    **_list(
        "sklearn.tree", "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor", _TREE
    ),
    **_list(
        "sklearn.ensemble",
        "RandomForestClassifier RandomForestRegressor ExtraTreesClassifier ExtraTreesRegressor "
        "GradientBoostingClassifier GradientBoostingRegressor HistGradientBoostingClassifier "
        "HistGradientBoostingRegressor",
        _TREE,
    ),
    # boosted trees of other packages, under the names that they are imported by and under those that they give
    **_list("lightgbm", "LGBMClassifier LGBMRegressor sklearn.LGBMClassifier sklearn.LGBMRegressor", _LIGHTGBM),
    **_list("xgboost", "XGBClassifier XGBRegressor XGBRFClassifier XGBRFRegressor", _XGBOOST),
    **_list("xgboost.sklearn", "XGBClassifier XGBRegressor XGBRFClassifier XGBRFRegressor", _XGBOOST),
    **_list("sklearn.svm", "SVC NuSVC SVR NuSVR", _LIBSVM),
    "sklearn.kernel_ridge.KernelRidge": AllowlistEntry(
        _KERNEL, {"kernel": ("linear", "poly", "rbf", "sigmoid", "laplacian", "cosine", "polynomial")}
    ),
    "sklearn.gaussian_process.GaussianProcessRegressor": AllowlistEntry(_KERNEL),
    "sklearn.gaussian_process.GaussianProcessClassifier": AllowlistEntry(
        _KERNEL + "; a triangular solve has one right-hand side a row"
    ),
    **_list("sklearn.neighbors", "KNeighborsClassifier KNeighborsRegressor", _NEIGHBOURS),
    **_list("sklearn.naive_bayes", "GaussianNB BernoulliNB MultinomialNB ComplementNB", AllowlistEntry(_BAYES)),
    "sklearn.naive_bayes.CategoricalNB": AllowlistEntry(_BAYES + ", looked up in fitted tables"),
    **_list("sklearn.neural_network", "MLPClassifier MLPRegressor", _LAYERS),
    "sklearn.dummy.DummyClassifier": AllowlistEntry(
        "a fitted constant", {"strategy": ("prior", "most_frequent", "constant")}
    ),
    "sklearn.dummy.DummyRegressor": AllowlistEntry("a fitted constant"),
    "sklearn.pipeline.Pipeline": AllowlistEntry("hands the rows from step to step; the steps are looked at too"),
    **_list(
        "sklearn.ensemble",
        "AdaBoostClassifier AdaBoostRegressor BaggingClassifier BaggingRegressor StackingClassifier "
        "StackingRegressor VotingClassifier VotingRegressor",
        AllowlistEntry(_CALLS_PARTS),
    ),
    **_list("sklearn.multiclass", "OneVsRestClassifier OneVsOneClassifier", AllowlistEntry(_CALLS_PARTS)),
    **_list("sklearn.compose", "TransformedTargetRegressor", AllowlistEntry(_CALLS_PARTS)),
    "sklearn.calibration.CalibratedClassifierCV": AllowlistEntry(_CALLS_PARTS, {"method": ("sigmoid", "isotonic")}),
    "sklearn.frozen.FrozenEstimator": AllowlistEntry(
        "calls the same verb of what it wraps, which is looked at too"
    ),
}

_CELLS = AllowlistEntry("each cell by fitted numbers of its column")
_COLUMNS = AllowlistEntry("keeps fitted columns")
_WORDS = "counts of the words or characters of the row's own text, by "
_OWN_WORDS = {
    "input": ("content",),
    "analyzer": ("word", "char", "char_wb"),
    "preprocessor": (None,),
    "tokenizer": (None,),
}
_CENTRED = AllowlistEntry("the row, centred by fitted means, times a fitted matrix")

TRANSFORMERS: Mapping[str, AllowlistEntry] = {
    **_list(
        "sklearn.preprocessing",
        "StandardScaler MinMaxScaler MaxAbsScaler RobustScaler Binarizer KBinsDiscretizer QuantileTransformer "
        "SplineTransformer OneHotEncoder OrdinalEncoder TargetEncoder",
        _CELLS,
    ),
    **_list("sklearn.impute", "SimpleImputer MissingIndicator", _CELLS),
    "sklearn.feature_extraction.text.HashingVectorizer": AllowlistEntry(
        _WORDS + "a hash; then the row's norm", _OWN_WORDS
    ),
    "sklearn.feature_extraction.text.CountVectorizer": AllowlistEntry(_WORDS + "a fitted vocabulary", _OWN_WORDS),
    "sklearn.feature_extraction.text.TfidfVectorizer": AllowlistEntry(
        _WORDS + "a fitted vocabulary and fitted weights; then the row's norm", _OWN_WORDS
    ),
    "sklearn.feature_extraction.text.TfidfTransformer": AllowlistEntry(
        "each count by a fitted weight, then the row's norm"
    ),
    "sklearn.preprocessing.Normalizer": AllowlistEntry("the row by its own norm"),
    "sklearn.preprocessing.PolynomialFeatures": AllowlistEntry("products of the cells of the row"),
    "sklearn.preprocessing.FunctionTransformer": AllowlistEntry(
        "one of NumPy's elementwise functions of one argument, or none",
        {"kw_args": (None, {}), "inv_kw_args": (None, {})},
    ),
    **_list("sklearn.decomposition", "PCA IncrementalPCA TruncatedSVD FactorAnalysis FastICA", _CENTRED),
    **_list("sklearn.random_projection", "GaussianRandomProjection SparseRandomProjection", _CENTRED),
    **_list("sklearn.neighbors", "NeighborhoodComponentsAnalysis", _CENTRED),
    "sklearn.kernel_approximation.RBFSampler": AllowlistEntry(_CENTRED.because + ", and its cosine"),
    "sklearn.kernel_approximation.Nystroem": AllowlistEntry(
        "the kernel between the row and fitted points, times a fitted matrix",
        {"kernel": ("rbf", "linear", "poly", "polynomial", "sigmoid", "laplacian", "cosine")},
    ),
    **_list(
        "sklearn.cluster", "KMeans MiniBatchKMeans", AllowlistEntry("distances between the row and fitted centres")
    ),
    "sklearn.ensemble.RandomTreesEmbedding": AllowlistEntry("the leaves that the row reaches in fitted trees"),
    **_list(
        "sklearn.feature_selection",
        "SelectKBest SelectPercentile SelectFpr SelectFdr SelectFwe SelectFromModel RFE VarianceThreshold",
        _COLUMNS,
    ),
    "sklearn.compose.ColumnTransformer": AllowlistEntry(
        "gives each part its columns of the same rows, and puts the results together; the parts are looked at too"
    ),
    "sklearn.pipeline.FeatureUnion": AllowlistEntry(
        "gives each part the same rows and puts the results side by side; the parts are looked at too"
    ),
}

CHECK_FUNCTION = "sklearn.utils.check_array"
_NUMBERS = AllowlistEntry("fitted numbers")
_COMPILED = AllowlistEntry("fitted numbers, and the metric they were made with", compiled=True)
_COMPILED_LOSS = AllowlistEntry("a loss, applied elementwise", closed=True)
_LOSS = AllowlistEntry("a loss, applied elementwise; its link too")
_KERNEL_PART = AllowlistEntry("a kernel between two rows, computed from those two alone")
_METRIC = AllowlistEntry("a distance between two rows, computed from those two alone", compiled=True)
_CURVE = AllowlistEntry("a fitted function of one number, elementwise")
_FITTING = AllowlistEntry("used when fitting only", closed=True)
_HANDLE = AllowlistEntry("compiled trees of numbers, made by the library's own training", closed=True)
_MEMBER = AllowlistEntry("a fitted part that is called on the same rows, and works on each by itself")

PARTS: Mapping[str, AllowlistEntry] = {
    **_list("sklearn.tree._tree", "Tree", _COMPILED),
    **_list("sklearn.ensemble._hist_gradient_boosting.predictor", "TreePredictor", _NUMBERS),
    **_list("sklearn.ensemble._hist_gradient_boosting.binning", "_BinMapper", _NUMBERS),
    **_list("sklearn.neighbors._kd_tree", "KDTree KDTree64 KDTree32", _COMPILED),
    **_list("sklearn.neighbors._ball_tree", "BallTree BallTree64 BallTree32", _COMPILED),
    **_list(
        "sklearn.metrics._dist_metrics",
        "EuclideanDistance64 ManhattanDistance64 ChebyshevDistance64 MinkowskiDistance64 EuclideanDistance32 "
        "ManhattanDistance32 ChebyshevDistance32 MinkowskiDistance32",
        _METRIC,
    ),
    **_list(
        "sklearn._loss.loss",
        "HalfBinomialLoss HalfMultinomialLoss HalfSquaredError HalfPoissonLoss HalfGammaLoss HalfTweedieLoss "
        "HalfTweedieLossIdentity AbsoluteError PinballLoss HuberLoss ExponentialLoss",
        _LOSS,
    ),
    **_list(
        "sklearn._loss._loss",
        "CyHalfBinomialLoss CyHalfMultinomialLoss CyHalfSquaredError CyHalfPoissonLoss CyHalfGammaLoss "
        "CyHalfTweedieLoss CyHalfTweedieLossIdentity CyAbsoluteError CyPinballLoss CyHuberLoss CyExponentialLoss "
        "CyLossFunction",
        _COMPILED_LOSS,
    ),
    **_list("sklearn._loss.link", "IdentityLink LogLink LogitLink HalfLogitLink MultinomialLogit Interval", _LOSS),
    **_list(
        "sklearn.linear_model._sgd_fast",
        "Hinge SquaredHinge Log ModifiedHuber SquaredLoss Huber EpsilonInsensitive SquaredEpsilonInsensitive",
        _FITTING,
    ),
    **_list("sklearn.neural_network._stochastic_optimizers", "AdamOptimizer SGDOptimizer", _FITTING),
    **_list("numpy.random.mtrand", "RandomState", _FITTING),
    **_list("numpy.random._generator", "Generator", _FITTING),
    **_list(
        "sklearn.model_selection",
        "KFold StratifiedKFold RepeatedKFold RepeatedStratifiedKFold ShuffleSplit StratifiedShuffleSplit "
        "LeaveOneOut",
        _FITTING,
    ),
    **_list("sklearn.compose", "make_column_selector", _FITTING),
    **_list("sklearn.compose._column_transformer", "_RemainderColsList", AllowlistEntry("the numbers of columns")),
    **_list("scipy.sparse", "csr_matrix csc_matrix csr_array csc_array", _NUMBERS),
    "lightgbm.basic.Booster": AllowlistEntry(
        "its trees: a prediction gets a buffer of its own, filled and emptied row by row", package=LIGHTGBM
    ),
    "xgboost.core.Booster": AllowlistEntry("its trees, which predicting does not change", package=XGBOOST),
    **_list("ctypes", "c_void_p", _HANDLE),
    **_list("collections", "defaultdict OrderedDict", AllowlistEntry("a dict: what it holds is looked at too")),
    **_list("functools", "partial", AllowlistEntry("`check_array` with some of its arguments given")),
    **_list("sklearn.utils", "Bunch", AllowlistEntry("a dict whose keys are attributes too")),
    **_list("scipy.interpolate", "BSpline interp1d", _CURVE),
    **_list("scipy.interpolate._bsplines", "_BSpline", _CURVE),  # what a BSpline hands its work to, from 1.18 on
    **_list(
        "sklearn.preprocessing", "LabelBinarizer LabelEncoder", AllowlistEntry("one class to its columns, and back")
    ),
    **_list("sklearn.isotonic", "IsotonicRegression", _MEMBER),
    **_list("sklearn.calibration", "_CalibratedClassifier _SigmoidCalibration", _MEMBER),
    **_list("sklearn.multiclass", "_ConstantPredictor", _MEMBER),
    **_list("sklearn.gaussian_process._gpc", "_BinaryGaussianProcessClassifierLaplace", _MEMBER),
    **_list(
        "sklearn.gaussian_process.kernels",
        "Hyperparameter CompoundKernel Sum Product Exponentiation ConstantKernel WhiteKernel RBF Matern "
        "RationalQuadratic ExpSineSquared DotProduct",
        _KERNEL_PART,
    ),
}

_SELECTION = "f_classif f_regression chi2 mutual_info_classif mutual_info_regression r_regression"  # fitting only
FUNCTIONS: tuple[str, ...] = (
    *(f"sklearn.feature_selection.{name}" for name in _SELECTION.split()),
    CHECK_FUNCTION,  # refuses a table or hands it on, cell by cell
    "scipy._lib.array_api_compat.numpy.asarray",  # what a fitted spline makes arrays with
    "scipy._external.array_api_compat.numpy",  # from SciPy 1.18 on, the module
)
