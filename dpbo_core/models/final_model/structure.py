"""Checks of the indices inside a loaded scikit-learn estimator, which compiled code follows without bounds checks.

A file that was tampered with could refer to a tree's node far outside its array. Predicting a record would then
read other memory of the process, with other records in it, loop for ever, or crash. The checks here exclude that.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np


def check_structure(estimator: Any) -> None:
    """Raise ValueError if a tree, a nearest-neighbour tree or support vectors point outside their arrays."""
    for item in _objects(estimator):
        width = getattr(item, "n_features_in_", 0)
        kind = type(item).__name__
        if hasattr(item, "tree_"):
            _check_tree(item.tree_, width)
        if hasattr(item, "estimators_") and hasattr(item, "n_features_in_"):
            subsets = getattr(item, "estimators_features_", None)
            inner = [getattr(each, "n_features_in_", width) for each in np.ravel(item.estimators_)]
            _require(subsets is not None or all(columns <= width for columns in inner))
        if hasattr(item, "_raw_predict_init") and hasattr(item, "estimators_"):
            first = item._raw_predict_init(np.zeros((1, width), dtype=np.float32))
            _require(item.estimators_.ndim == 2 and first.shape == (1, item.estimators_.shape[1]))
        if hasattr(item, "_predictors"):
            _check_boosted(item, width)
        if kind in ("KDTree", "BallTree"):
            _check_neighbours(item)
        if isinstance(getattr(item, "_fit_X", None), np.ndarray):
            _require(item._fit_X.ndim == 2 and item._fit_X.shape[1] == width)
        if hasattr(item, "support_vectors_"):
            _check_support(item, width)


def clear_padding(estimator: Any) -> None:
    """Zero the bytes between the fields of every table of nodes in a loaded estimator.

    A load leaves there whatever the memory held: two loads of one file would have two digests, and a file that is
    written of one would hold bytes of this process, which may have been records.
    """
    for item in _objects(estimator):
        if isinstance(item, np.ndarray) and item.dtype.names is not None and item.flags.c_contiguous:
            _zero_between_fields(item)
        tree = getattr(item, "tree_", None)
        if tree is not None:
            _zero_between_fields(tree.__getstate__()["nodes"])  # a view of the tree's own memory


def _zero_between_fields(table: Any) -> None:
    """Zero, in place, the bytes of a structured array that belong to none of its fields."""
    padding = np.ones(table.dtype.itemsize, dtype=np.bool_)
    for kind, offset, *_ in table.dtype.fields.values():
        padding[offset : offset + kind.itemsize] = False
    if padding.any():
        table.view(np.uint8).reshape(-1, table.dtype.itemsize)[:, padding] = 0


def _objects(item: Any) -> Iterator[Any]:
    visited: dict[int, Any] = {}  # by identity; what it holds stays alive, so that no identity is used twice
    waiting = [item]
    while waiting:
        member = waiting.pop()
        if id(member) in visited or isinstance(member, str | bytes | int | float | None):
            continue
        visited[id(member)] = member
        yield member
        if isinstance(member, dict):
            waiting += [*member.keys(), *member.values()]
        elif isinstance(member, list | tuple | set | frozenset):
            waiting += member
        elif isinstance(member, np.ndarray):
            waiting += member.ravel().tolist() if member.dtype.hasobject else []
        else:
            waiting += getattr(member, "__dict__", {}).values()


def _check_tree(tree: Any, width: int) -> None:
    """Refuse a tree that splits by a feature beyond `width`, or has a child before its parent: maybe a cycle."""
    nodes, count = tree.__getstate__()["nodes"], tree.node_count
    _require(0 < count == len(nodes) == len(tree.__getstate__()["values"]) and tree.n_features <= width)
    inner = nodes["left_child"] != -1
    _check_nodes(nodes["left_child"], nodes["right_child"], nodes["feature"], inner, width)


def _check_boosted(model: Any, width: int) -> None:
    categorical = np.asarray(model._bin_mapper.is_categorical_, dtype=bool)
    _require(categorical.shape == (width,))
    for predictor in (each for trees in model._predictors for each in trees):
        nodes, sets = predictor.nodes, len(predictor.raw_left_cat_bitsets)
        inner = nodes["is_leaf"] == 0
        _require(len(nodes) > 0 and predictor.raw_left_cat_bitsets.shape[1:] == (8,))
        _check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], inner, width)
        by_category = nodes[inner & (nodes["is_categorical"] != 0)]
        _require(bool(categorical[by_category["feature_idx"]].all() and (by_category["bitset_idx"] < sets).all()))


def _check_nodes(left: Any, right: Any, feature: Any, inner: Any, width: int) -> None:
    """Refuse nodes unless each `inner` one's children come after it and its feature is below `width`."""
    at = np.flatnonzero(inner)
    for children in (left, right):
        after = children[at].astype(np.float64)
        _require(bool((after > at).all() and (after < len(left)).all()))
    columns = feature[at].astype(np.float64)
    _require(bool((columns >= 0).all() and (columns < width).all()))


def _check_neighbours(tree: Any) -> None:
    """Refuse a nearest-neighbour tree whose nodes have a range outside its rows, or children that do not exist."""
    data, rows, nodes, bounds, _, _, n_nodes = tree.__getstate__()[:7]
    start, end = (nodes[name].astype(np.float64) for name in ("idx_start", "idx_end"))
    leaf = nodes["is_leaf"] != 0
    _require(
        np.ndim(data) == 2
        and rows.shape == (len(data),)
        and nodes.shape == (n_nodes,)
        and n_nodes > 0
        and bounds.shape[1:] == (n_nodes, data.shape[1])
        and bounds.shape[0] == (2 if type(tree).__name__ == "KDTree" else 1)
        and bool(((rows >= 0) & (rows < len(data))).all())
        and bool(((start >= 0) & (start <= end) & (end <= len(data))).all())
        and bool(leaf[2 * np.arange(n_nodes) + 2 >= n_nodes].all())
    )


def _check_support(model: Any, width: int) -> None:
    counts, vectors = np.asarray(model._n_support), model.support_vectors_
    classes = len(counts)
    pairs = max(1, classes * (classes - 1) // 2)
    _require(
        isinstance(vectors, np.ndarray)
        and vectors.ndim == 2
        and (vectors.shape[1] == width or model.kernel == "precomputed")
        and len(model.support_) == len(vectors)
        and bool((counts >= 0).all())
        and (not hasattr(model, "classes_") or counts.sum() == len(vectors))
        and model._dual_coef_.shape == (max(1, classes - 1), len(vectors))
        and np.size(model._intercept_) == pairs
        and {np.size(model._probA), np.size(model._probB)} <= {0, pairs}
    )


def _require(condition: bool) -> None:  # noqa: FBT001  it is what is asked
    if not condition:
        raise ValueError("an index of the estimator points outside it")
