"""McKenna, Sheldon: Permute-and-Flip, a new mechanism for differentially private selection. NeurIPS 2020.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n | `n_candidates` | candidates to choose among | scalar ≥ 1 |
| Δ | `sensitivity` | most one utility moves | scalar > 0 |
| ε | `epsilon` | pure differential privacy | scalar > 0 |
"""

import math


def selection_scale(*, sensitivity: float, epsilon: float) -> float:
    """The scale s = 2Δ/ε of permute-and-flip and the exponential mechanism, which weigh utilities by exp(u/s).

    Holds when: every utility moves by at most Δ, in either direction. Source: section 2 and Algorithm 1.
    """
    return 2.0 * sensitivity / epsilon


def theorem_2_expected_error(*, n_candidates: int, sensitivity: float, epsilon: float) -> float:
    """The expected loss of a private choice, E[max u − u(chosen)] ≤ s·log n with s = 2Δ/ε, for either mechanism.

    The exponential mechanism's weights maximise E[u]/s + H over all distributions, so max u ≤ E[u] + s·H and
    the entropy H is at most log n. Permute-and-flip is never worse in expectation (Theorem 2).
    """
    return selection_scale(sensitivity=sensitivity, epsilon=epsilon) * math.log(n_candidates)
