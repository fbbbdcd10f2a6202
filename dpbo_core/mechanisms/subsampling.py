"""Poisson subsampling from the operating system's entropy.

| symbol | name here | meaning | shape |
|---|---|---|---|
| q | `rate` | probability that a record joins | scalar in (0, 1] |
| n | `n_records` | records | scalar |
"""

import os

import numpy as np
from numpy.typing import NDArray

from dpbo_core.mechanisms.noise import NoiseSource


def poisson_sample(n_records: int, rate: float, source: NoiseSource) -> NDArray[np.bool_]:
    """Which records join, (n,): each independently with probability ⌊2⁶⁴q⌋/2⁶⁴ ≤ q (fewer: towards privacy)."""
    if rate >= 1.0:
        return np.ones(n_records, dtype=np.bool_)
    threshold = np.uint64(int(rate * 2.0**64))  # scaling by a power of two is exact

    def from_bytes(content: bytes) -> NDArray[np.bool_]:
        return np.frombuffer(content, dtype=np.uint64) < threshold

    return source.draw(
        lambda n: from_bytes(os.urandom(8 * n)),
        n_records,
        lambda rng, factor: from_bytes(rng.bytes(8 * n_records)),  # noqa: ARG005  a sample has no scale
    )
