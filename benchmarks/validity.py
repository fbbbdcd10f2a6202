"""How often the bounds of Theorems 1 and 3 of Kusner et al. are exceeded, over pairs (f, f′) of the two-task prior.

python -m benchmarks.validity [PAIRS]
"""

import sys
from pathlib import Path

SETTINGS = ({"k1": 0.6, "sigma2": 0.05}, {"k1": 0.95, "sigma2": 0.01}, {"k1": 0.0, "sigma2": 1.0})
TESTS = Path(__file__).parent.parent / "tests"


def main(pairs: int) -> None:
    sys.path += [str(TESTS), str(TESTS / "methods")]
    from test_gaussian_process_methods import simulate  # type: ignore[import-not-found]

    print(f"{pairs} pairs each, δ = 0.2, N = 40, T = 15; share of pairs beyond the bound (must be at most 0.2)\n")
    for setting in SETTINGS:
        shares = simulate(pairs, seed=1, **setting)
        told = ", ".join(f"{name}: {share:.4f}" for name, share in shares.items())
        print(f"k₁ = {setting['k1']}, σ² = {setting['sigma2']}: {told}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
