"""The attack on the published transform as a picture: true rows, and what an adversary makes of either transform.

    python benchmarks/attack.py FILE.png

300 rows on a curve of norm at most 25, ε = e^1.1, δ = 1e-5, the paper's r = 10 and its relation. For each row
in turn the adversary knows the 299 others, solves for the secret map by least squares, and rebuilds the one.
"""

import math
import sys
from typing import Any

import numpy as np
from dp_accounting import get_sigma_gaussian

from dpbo.features.outsourced.box import Outsourced
from dpbo.features.outsourced.geometry import image, raised
from dpbo_core.data.table import table_of
from dpbo_core.mechanisms.noise import OperatingSystemNoise
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.theorems.kharkovskii_2020 import singular_value_floor

EPSILON, DELTA, R = math.exp(1.1), 1e-5, 10


def rebuilt(X: Any, Z: Any) -> Any:
    """Every row from all the others and the published table."""
    found = []
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        design = np.column_stack([X[others], np.ones(len(X) - 1)])
        solution, *_ = np.linalg.lstsq(design, Z[others], rcond=None)
        found.append((Z[i] - solution[-1]) @ np.linalg.pinv(solution[:-1]))
    return np.array(found)


def main(path: str) -> None:
    import matplotlib.pyplot as plt

    t = np.linspace(0.0, 2.0 * math.pi, 300, endpoint=False)
    X = np.column_stack(
        [16 * np.sin(t) ** 3, 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)]
    )
    X *= 25.0 / np.linalg.norm(X, axis=1).max()
    floor = singular_value_floor(epsilon=EPSILON, delta=DELTA, projection_dim=R)
    theirs = raised(X, floor) @ np.random.default_rng(0).standard_normal((2, R)) / math.sqrt(R)
    box = Outsourced(EPSILON, DELTA, relation=NeighboringRelation.ROW_MOVES_BY_ONE)
    mechanism = box.mechanism(*X.shape)
    Q = image(table_of({"a": X[:, 0], "b": X[:, 1]}), box.geometry(2))
    ours = mechanism.prepare(mechanism.spend("table"), OperatingSystemNoise())(Q) * mechanism.unit
    tau = mechanism.scale * mechanism.unit
    print(f"σ_min {np.linalg.svd(X - X.mean(axis=0), compute_uv=False).min():.1f}, ω {floor:.1f}: raised")
    picture, axes = plt.subplots(1, 2, figsize=(8.4, 4.2), sharex=True, sharey=True, layout="constrained")
    for axis, name, Z in zip(axes, ("published transform", "sound transform"), (theirs, ours), strict=True):
        found = rebuilt(X, Z)
        error = np.sqrt(((found - X) ** 2).sum(axis=1).mean())
        print(f"{name}: root mean square error {error:.3g}")
        axis.plot(*X.T, "o", color="0.75", ms=6, label="true rows")
        axis.plot(*found.T, ".", color="crimson", ms=3, label="rebuilt from the table and the other rows")
        axis.set_title(f"{name}: error {error:.2g}", fontsize=10)
        axis.set_aspect("equal")
    axes[0].legend(frameon=False, fontsize=8, loc="lower left")
    picture.savefig(path, dpi=110)
    least = get_sigma_gaussian(EPSILON, DELTA)
    print(f"τ = {tau:.4f} (continuous Gaussian noise would need {least:.4f}); Cramér–Rao τ√2 = {tau * 2**0.5:.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
