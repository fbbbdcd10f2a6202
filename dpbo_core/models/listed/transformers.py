"""Transformers on the list, by the name they are imported by.

Not on it, among others: `IterativeImputer` and `KNNImputer`, which gather the rows that lack a value and compute on
that smaller table; `PowerTransformer`, which takes powers of the positive values together; `NMF`, which iterates
over all rows until the largest is done.

What listed classes are made of, and functions that may be handed to them.

A part has no verb that a study calls; it is used by the class that holds it, in the way that class's sentence says.
"""

from collections.abc import Mapping

from dpbo_core.models.listed.entry import LIGHTGBM, XGBOOST, Listed

CHECK = "sklearn.utils.check_array"
_NUMBERS = Listed("fitted numbers")
_COMPILED = Listed("fitted numbers, and the metric they were made with", compiled=True)
_COMPILED_LOSS = Listed("a loss, applied elementwise", closed=True)
_LOSS = Listed("a loss, applied elementwise; its link too")
_KERNEL = Listed("a kernel between two rows, computed from those two alone")
_METRIC = Listed("a distance between two rows, computed from those two alone", compiled=True)
_CURVE = Listed("a fitted function of one number, elementwise")
_FITTING = Listed("used when fitting only", closed=True)
_HANDLE = Listed("compiled trees of numbers, made by the library's own training", closed=True)
_MEMBER = Listed("a fitted part that is called on the same rows, and works on each by itself")


def _each(module: str, names: str, entry: Listed) -> dict[str, Listed]:
    return {f"{module}.{name}": entry for name in names.split()}


PARTS: Mapping[str, Listed] = {
    **_each("sklearn.tree._tree", "Tree", _COMPILED),
    **_each("sklearn.ensemble._hist_gradient_boosting.predictor", "TreePredictor", _NUMBERS),
    **_each("sklearn.ensemble._hist_gradient_boosting.binning", "_BinMapper", _NUMBERS),
    **_each("sklearn.neighbors._kd_tree", "KDTree KDTree64 KDTree32", _COMPILED),
    **_each("sklearn.neighbors._ball_tree", "BallTree BallTree64 BallTree32", _COMPILED),
    **_each(
        "sklearn.metrics._dist_metrics",
        "EuclideanDistance64 ManhattanDistance64 ChebyshevDistance64 MinkowskiDistance64 EuclideanDistance32 "
        "ManhattanDistance32 ChebyshevDistance32 MinkowskiDistance32",
        _METRIC,
    ),
    **_each(
        "sklearn._loss.loss",
        "HalfBinomialLoss HalfMultinomialLoss HalfSquaredError HalfPoissonLoss HalfGammaLoss HalfTweedieLoss "
        "HalfTweedieLossIdentity AbsoluteError PinballLoss HuberLoss ExponentialLoss",
        _LOSS,
    ),
    **_each(
        "sklearn._loss._loss",
        "CyHalfBinomialLoss CyHalfMultinomialLoss CyHalfSquaredError CyHalfPoissonLoss CyHalfGammaLoss "
        "CyHalfTweedieLoss CyHalfTweedieLossIdentity CyAbsoluteError CyPinballLoss CyHuberLoss CyExponentialLoss "
        "CyLossFunction",
        _COMPILED_LOSS,
    ),
    **_each("sklearn._loss.link", "IdentityLink LogLink LogitLink HalfLogitLink MultinomialLogit Interval", _LOSS),
    **_each(
        "sklearn.linear_model._sgd_fast",
        "Hinge SquaredHinge Log ModifiedHuber SquaredLoss Huber EpsilonInsensitive SquaredEpsilonInsensitive",
        _FITTING,
    ),
    **_each("sklearn.neural_network._stochastic_optimizers", "AdamOptimizer SGDOptimizer", _FITTING),
    **_each("numpy.random.mtrand", "RandomState", _FITTING),
    **_each("numpy.random._generator", "Generator", _FITTING),
    **_each(
        "sklearn.model_selection",
        "KFold StratifiedKFold RepeatedKFold RepeatedStratifiedKFold ShuffleSplit StratifiedShuffleSplit "
        "LeaveOneOut",
        _FITTING,
    ),
    **_each("sklearn.compose", "make_column_selector", _FITTING),
    **_each("sklearn.compose._column_transformer", "_RemainderColsList", Listed("the numbers of columns")),
    **_each("scipy.sparse", "csr_matrix csc_matrix csr_array csc_array", _NUMBERS),
    "lightgbm.basic.Booster": Listed(
        "its trees: a prediction gets a buffer of its own, filled and emptied row by row", package=LIGHTGBM
    ),
    "xgboost.core.Booster": Listed("its trees, which predicting does not change", package=XGBOOST),
    **_each("ctypes", "c_void_p", _HANDLE),
    **_each("collections", "defaultdict OrderedDict", Listed("a dict: what it holds is looked at too")),
    **_each("functools", "partial", Listed("`check_array` with some of its arguments given")),
    **_each("sklearn.utils", "Bunch", Listed("a dict whose keys are attributes too")),
    **_each("scipy.interpolate", "BSpline interp1d", _CURVE),
    **_each("scipy.interpolate._bsplines", "_BSpline", _CURVE),  # what a BSpline hands its work to, from 1.18 on
    **_each("sklearn.preprocessing", "LabelBinarizer LabelEncoder", Listed("one class to its columns, and back")),
    **_each("sklearn.isotonic", "IsotonicRegression", _MEMBER),
    **_each("sklearn.calibration", "_CalibratedClassifier _SigmoidCalibration", _MEMBER),
    **_each("sklearn.multiclass", "_ConstantPredictor", _MEMBER),
    **_each("sklearn.gaussian_process._gpc", "_BinaryGaussianProcessClassifierLaplace", _MEMBER),
    **_each(
        "sklearn.gaussian_process.kernels",
        "Hyperparameter CompoundKernel Sum Product Exponentiation ConstantKernel WhiteKernel RBF Matern "
        "RationalQuadratic ExpSineSquared DotProduct",
        _KERNEL,
    ),
}

_SELECTION = "f_classif f_regression chi2 mutual_info_classif mutual_info_regression r_regression"  # fitting only
FUNCTIONS: tuple[str, ...] = (
    *(f"sklearn.feature_selection.{name}" for name in _SELECTION.split()),
    CHECK,  # refuses a table or hands it on, cell by cell
    "scipy._lib.array_api_compat.numpy.asarray",  # what a fitted spline makes arrays with
    "scipy._external.array_api_compat.numpy",  # from SciPy 1.18 on, the module
)


_CELLS = "each cell by fitted numbers of its column"
_COLUMNS = "keeps fitted columns"
_WORDS = "counts of the words or characters of the row's own text, by "
_OWN_WORDS = {
    "input": ("content",),
    "analyzer": ("word", "char", "char_wb"),
    "preprocessor": (None,),
    "tokenizer": (None,),
}
_PRODUCT = "the row, centred by fitted means, times a fitted matrix"

TRANSFORMERS: Mapping[str, Listed] = {
    # cell by cell
    "sklearn.preprocessing.StandardScaler": Listed(_CELLS),
    "sklearn.preprocessing.MinMaxScaler": Listed(_CELLS),
    "sklearn.preprocessing.MaxAbsScaler": Listed(_CELLS),
    "sklearn.preprocessing.RobustScaler": Listed(_CELLS),
    "sklearn.preprocessing.Binarizer": Listed(_CELLS),
    "sklearn.preprocessing.KBinsDiscretizer": Listed(_CELLS),
    "sklearn.preprocessing.QuantileTransformer": Listed(_CELLS),
    "sklearn.preprocessing.SplineTransformer": Listed(_CELLS),
    "sklearn.preprocessing.OneHotEncoder": Listed(_CELLS),
    "sklearn.preprocessing.OrdinalEncoder": Listed(_CELLS),
    "sklearn.preprocessing.TargetEncoder": Listed(_CELLS),
    "sklearn.impute.SimpleImputer": Listed(_CELLS),
    "sklearn.impute.MissingIndicator": Listed(_CELLS),
    # text by text
    "sklearn.feature_extraction.text.HashingVectorizer": Listed(_WORDS + "a hash; then the row's norm", _OWN_WORDS),
    "sklearn.feature_extraction.text.CountVectorizer": Listed(_WORDS + "a fitted vocabulary", _OWN_WORDS),
    "sklearn.feature_extraction.text.TfidfVectorizer": Listed(
        _WORDS + "a fitted vocabulary and fitted weights; then the row's norm", _OWN_WORDS
    ),
    "sklearn.feature_extraction.text.TfidfTransformer": Listed(
        "each count by a fitted weight, then the row's norm"
    ),
    # row by row
    "sklearn.preprocessing.Normalizer": Listed("the row by its own norm"),
    "sklearn.preprocessing.PolynomialFeatures": Listed("products of the cells of the row"),
    "sklearn.preprocessing.FunctionTransformer": Listed(
        "one of NumPy's elementwise functions of one argument, or none",
        {"kw_args": (None, {}), "inv_kw_args": (None, {})},
    ),
    # products
    "sklearn.decomposition.PCA": Listed(_PRODUCT),
    "sklearn.decomposition.IncrementalPCA": Listed(_PRODUCT),
    "sklearn.decomposition.TruncatedSVD": Listed(_PRODUCT),
    "sklearn.decomposition.FactorAnalysis": Listed(_PRODUCT),
    "sklearn.decomposition.FastICA": Listed(_PRODUCT),
    "sklearn.random_projection.GaussianRandomProjection": Listed(_PRODUCT),
    "sklearn.random_projection.SparseRandomProjection": Listed(_PRODUCT),
    "sklearn.neighbors.NeighborhoodComponentsAnalysis": Listed(_PRODUCT),
    "sklearn.kernel_approximation.RBFSampler": Listed(_PRODUCT + ", and its cosine"),
    "sklearn.kernel_approximation.Nystroem": Listed(
        "the kernel between the row and fitted points, times a fitted matrix",
        {"kernel": ("rbf", "linear", "poly", "polynomial", "sigmoid", "laplacian", "cosine")},
    ),
    "sklearn.cluster.KMeans": Listed("distances between the row and fitted centres"),
    "sklearn.cluster.MiniBatchKMeans": Listed("distances between the row and fitted centres"),
    "sklearn.ensemble.RandomTreesEmbedding": Listed("the leaves that the row reaches in fitted trees"),
    # choice of columns
    "sklearn.feature_selection.SelectKBest": Listed(_COLUMNS),
    "sklearn.feature_selection.SelectPercentile": Listed(_COLUMNS),
    "sklearn.feature_selection.SelectFpr": Listed(_COLUMNS),
    "sklearn.feature_selection.SelectFdr": Listed(_COLUMNS),
    "sklearn.feature_selection.SelectFwe": Listed(_COLUMNS),
    "sklearn.feature_selection.SelectFromModel": Listed(_COLUMNS),
    "sklearn.feature_selection.RFE": Listed(_COLUMNS),
    "sklearn.feature_selection.VarianceThreshold": Listed(_COLUMNS),
    # what is made of other transformers
    "sklearn.compose.ColumnTransformer": Listed(
        "gives each part its columns of the same rows, and puts the results together; the parts are looked at too"
    ),
    "sklearn.pipeline.FeatureUnion": Listed(
        "gives each part the same rows and puts the results side by side; the parts are looked at too"
    ),
}
