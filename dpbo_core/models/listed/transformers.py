"""Transformers on the list, by the name they are imported by.

Not on it, among others: `IterativeImputer` and `KNNImputer`, which gather the rows that lack a value and compute on
that smaller table; `PowerTransformer`, which takes powers of the positive values together; `NMF`, which iterates
over all rows until the largest is done.
"""

from collections.abc import Mapping

from dpbo_core.models.listed.entry import Listed

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
