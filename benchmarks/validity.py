"""How often the bounds of Theorems 1 and 3 of Kusner et al. are exceeded, over pairs (f, f′) of the two-task prior.

python benchmarks/validity.py [PAIRS]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from test_gaussian_process_methods import simulate  # type: ignore[import-not-found]

PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
SETTINGS = ({"k1": 0.6, "sigma2": 0.05}, {"k1": 0.95, "sigma2": 0.01}, {"k1": 0.0, "sigma2": 1.0})

print(f"{PAIRS} pairs each, δ = 0.2, N = 40, T = 15; share of pairs beyond the bound (must be at most 0.2)\n")
for setting in SETTINGS:
    shares = simulate(PAIRS, seed=1, **setting)
    told = ", ".join(f"{name}: {share:.4f}" for name, share in shares.items())
    print(f"k₁ = {setting['k1']}, σ² = {setting['sigma2']}: {told}")
