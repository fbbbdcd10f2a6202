"""Scores that do not depend on a record's position, nor on the number of other records, to the last bit.

| symbol | name here | meaning | shape |
|---|---|---|---|
| B | `BATCH_PLACES` | rows of every batch | scalar |
| h | `_batch_places` | a row's place in its batch: a hash of the row and its truth | (r,) in [0, B) |
| x₀ | `stand_in` | fills the places that no row has | (d,) |

Linear algebra adds in another order where a batch has another number of rows, or a row another place in it; the
last digits differ, and with them a class that is nearly a tie. While neighbours have as many records in the same
places that does not matter. Where a person may leave, the others' places and the last batch's size would move: so
every batch has one shape, and a row's place in it follows from what the row holds.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

BATCH_PLACES = 1024

# the scores (B,) of a batch: of its rows (B, d) and their truth (B,)
ScoredBatch = Callable[[NDArray[np.float64], NDArray[Any]], NDArray[np.float64]]


def scores_by_content(
    scored_batch: ScoredBatch, stand_in: NDArray[np.float64], X: NDArray[np.float64], truth: NDArray[Any]
) -> NDArray[np.float64]:
    """Return each record's score, (m,), which depends on its row and truth alone; no record makes it raise.

    Equal records are scored once. Each batch has the same shape, filled up with the public row `stand_in`. An
    element of `scored_batch` may follow from its place too, and not from other rows.
    """
    keys = _keys(X, np.ascontiguousarray(truth))
    _, rows, inverse = np.unique(keys, return_index=True, return_inverse=True)
    X, truth = X[rows], truth[rows]
    places = _batch_places(keys[rows])
    scores = np.zeros(len(X))
    for members in _batches(places):
        batch = np.tile(stand_in, (BATCH_PLACES, 1))
        labels = np.zeros(BATCH_PLACES, dtype=truth.dtype)
        batch[places[members]], labels[places[members]] = X[members], truth[members]
        scores[members] = scored_batch(batch, labels)[places[members]]
    return scores[inverse]


def _keys(X: NDArray[Any], truth: NDArray[Any]) -> NDArray[Any]:
    """Return a key for each row with its truth, (m,): their bytes, or a hash for rows of mixed cells."""
    parts = np.frombuffer(b"".join(map(_row_hash, X)), dtype=np.uint8) if X.dtype == object else None
    raw = np.ascontiguousarray(X, dtype=np.float64).view(np.uint8) if parts is None else parts
    both = (raw.reshape(len(X), -1), truth.view(np.uint8).reshape(len(X), -1))
    joined = np.ascontiguousarray(np.concatenate(both, axis=1))
    return joined.view(np.dtype((np.void, joined.shape[1]))).ravel()


def _row_hash(row: NDArray[Any]) -> bytes:
    digest = hashlib.blake2b(digest_size=32)
    for cell in row:
        text = f"{type(cell).__name__} {cell!r}".encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.digest()


def _batch_places(keys: NDArray[Any]) -> NDArray[np.intp]:
    hashed = b"".join(hashlib.blake2b(key.tobytes(), digest_size=2).digest() for key in keys)
    return np.frombuffer(hashed, dtype="<u2").astype(np.intp) % BATCH_PLACES


def _batches(places: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return the rows' indices in batches, so that no two rows of one batch have the same place."""
    order = np.argsort(places, kind="stable")
    arranged = places[order]
    turn = np.arange(len(order)) - np.searchsorted(arranged, arranged)  # how many before it have its place
    return [order[turn == batch] for batch in range(int(turn.max()) + 1)]
