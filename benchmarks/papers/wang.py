"""Tables 1 and 2 and figure 1 of Wang et al. (2023), by named stand-ins; so are the landscapes (figures 2, 3).

MNIST and CIFAR-10 with a convolutional network are not at hand. Their stand-in is in `digits`; that of the
federated task is one minus that accuracy on the 16 × 20 grid. An oracle adds N(0, 0.1²) to it (Appendix E.1).

printed: C = 2, c = 0.75, β = 1, and the noise multipliers of Appendix E; equal: those that ε = 15 leaves
at each γ by the tightened theorem. Ours are of replace-one, theirs of adding or removing a record; from one arm to
the other the ratio is about the same.
Of `white`, bounds and β that the paper did not try, there is `equal` alone.
"""

import math
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy.linalg.blas import dger
from scipy.optimize import brentq

from benchmarks.papers.cells import Cell
from benchmarks.papers.digits import EPOCHS, GRIDS, black_box, cifar, landscape, sampling_rate
from dpbo.features.private_training.dp_sgd import DpSgd
from dpbo_core.mechanisms.repeat_and_select import selection_epsilon
from dpbo_core.mechanisms.trial_cost import TrialCost
from dpbo_core.search.adaptive_sampling import GaussianProcessSampler
from dpbo_core.search.gp import Posterior, kernel_named
from dpbo_core.theorems import wang_2023
from dpbo_core.theorems.event_price import least_noise
from dpbo_core.theorems.trial_counts import TruncatedNegativeBinomial

RUNS, MORE, ORACLE = 200, 1000, 0.1
DELTA, GAMMAS = 1e-5, (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.025, 0.03)
FEW = 0.01  # γ from which trials are few and cheap, and runs scatter: MORE runs of what is concluded from
EPSILON, TASKS = 15.0, ("mnist", "cifar")
NOISE = {  # Appendix E, as printed
    "mnist": {"gaussian_process": 0.71, "uniform": 0.64},
    "cifar": {"gaussian_process": 0.65, "uniform": 0.6},
}
UNIFORM, ADAPTIVE = (1.0, 1.0), (0.75, 2.0)
MODES = ("printed", "equal")
FIGURE_1_RUNS = {  # the paper's, 400 and 10,000, where they are cheap
    "mnist": {"gaussian_process": 400, "uniform": 10_000},
    "cifar": {"gaussian_process": 200, "uniform": 10_000},
}
FIXED = (1, 2, 4, 8, 16, 32, 64, 128)  # numbers of trials of figure 1
BLACK = {  # Table 2: c = 1/C; the last is what wins here
    "uniform": (UNIFORM, 1.0),
    "C = 1.25": ((0.8, 1.25), 1.0),
    "C = 1.33": ((1 / 1.33, 1.33), 1.0),
    "C = 1.5": ((1 / 1.5, 1.5), 1.0),
    "C = 4, β = 50": ((0.25, 4.0), 50.0),
}
WHITE = {  # on one ε, what Table 2's last does, and β alone
    "c = 0.75, C = 2, β = 50": (ADAPTIVE, 50.0),
    "C = 4, β = 50": ((0.25, 4.0), 50.0),
}
PRINTED_1 = {
    "gaussian_process": (0.946, 0.948, 0.948, 0.947, 0.943, 0.937, 0.934, 0.932),
    "uniform": (0.943, 0.945, 0.945, 0.944, 0.940, 0.935, 0.932, 0.929),
}
PRINTED_2 = {
    "C = 1.25": (0.00853, 0.0088, 0.00906, 0.00958, 0.0108, 0.0129, 0.0138, 0.0146),
    "C = 1.33": (0.00821, 0.00847, 0.00872, 0.00921, 0.0104, 0.0123, 0.0132, 0.0140),
    "C = 1.5": (0.00822, 0.00848, 0.00872, 0.00920, 0.0103, 0.0123, 0.0131, 0.0130),
    "uniform": (0.0104, 0.0106, 0.0109, 0.0113, 0.0123, 0.0141, 0.0149, 0.0156),
}


@lru_cache(maxsize=64)
def sigma_of(bounds: tuple[float, float], gamma: float) -> float:
    """The noise multiplier that ε leaves at γ."""

    def excess(log_cost: float) -> float:
        return renyi_epsilon(trained(math.exp(-0.5 * log_cost)), bounds, gamma, "corrected") - EPSILON

    return math.exp(-0.5 * brentq(excess, math.log(0.1), math.log(10.0)))


def trained(noise_multiplier: float) -> TrialCost:
    """What one training costs at a noise multiplier."""
    return DpSgd("softmax", noise_multiplier, sampling_rate(), EPOCHS).cost


def renyi_epsilon(
    cost: TrialCost, bounds: tuple[float, float], gamma: float, calibration: wang_2023.Calibration
) -> float:
    """ε at DELTA of a geometric number of trials by Theorem 1, as printed or tightened."""
    stated = {"bounds": bounds, "calibration": calibration}
    others = min(
        wang_2023.terms_in_alpha_hat(
            alpha_hat=alpha, base_epsilon_hat=cost.curve.at(alpha), shape=1.0, gamma=gamma, **stated
        )
        for alpha in cost.curve.orders
    )
    return wang_2023.best_epsilon(
        lambda alpha: (
            others
            + wang_2023.terms_in_alpha(
                alpha=alpha, base_epsilon=cost.curve.at(alpha), log_mean=-math.log(gamma), **stated
            )
        ),
        cost.curve.orders,
        delta=DELTA,
    )


def prices() -> str:
    """The table of ε of both arms at the noise that Theorem 1 as printed leaves of ε = 15, priced in three ways."""
    columns = ("γ", "arm", "noise", "as printed", "tightened, Rényi", "by profile", "noise by profile")
    rows = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for gamma in GAMMAS:
        for arm, bounds in (("uniform", UNIFORM), ("Gaussian process", ADAPTIVE)):
            ways = [
                partial(_renyi_at, bounds, gamma, "published"),
                partial(_renyi_at, bounds, gamma, "corrected"),
                partial(_profile_at, bounds, gamma),
            ]
            sigma, least = least_noise(ways[0], EPSILON), least_noise(ways[2], EPSILON)
            costs = " | ".join(f"{way(sigma):.2f}" for way in ways)
            rows.append(f"| {gamma:g} | {arm} | {sigma:.3f} | {costs} | {least:.3f} |")
    return "\n".join(rows) + "\n"


def _renyi_at(bounds: tuple[float, float], gamma: float, calibration: wang_2023.Calibration, sigma: float) -> float:
    return renyi_epsilon(trained(sigma), bounds, gamma, calibration)


def _profile_at(bounds: tuple[float, float], gamma: float, sigma: float) -> float:
    law = TruncatedNegativeBinomial(1.0, 1.0 / gamma)
    return selection_epsilon(law, (trained(sigma),), lower=bounds[0], upper=bounds[1], delta=DELTA)


def sigma(arm: str, gamma: float, mode: str) -> float:
    """Of an arm of Table 1."""
    if mode == "printed":
        return NOISE["mnist"][arm]
    return sigma_of(UNIFORM if arm == "uniform" else ADAPTIVE, gamma)


class MatrixPosterior:
    """The same posterior, kept as its whole covariance: O(N²) a trial, for more trials than candidates."""

    def __init__(self, covariance: np.ndarray, noise_variance: float, prior_mean: float) -> None:
        self._C, self._noise, self._seen = covariance.copy(), noise_variance, 0
        self.mean = np.full(len(covariance), prior_mean)

    def __len__(self) -> int:
        return self._seen

    @property
    def std(self) -> np.ndarray:
        return np.sqrt(np.maximum(np.diag(self._C), 0.0))

    def observe(self, index: int, value: float) -> None:
        gain = self._C[index] / (self._C[index, index] + self._noise)
        self.mean = self.mean + gain * (value - self.mean[index])
        dger(
            -1.0, gain, self._C[index].copy(), a=self._C.T, overwrite_a=1
        )  # C − gain·C[index]ᵀ, symmetric, in place
        self._seen += 1


def searched(which: int, mean: Any, bounds: tuple[float, float], beta: float, K: int, rng: Any) -> float:
    """The mean accuracy of the candidate with the best of K noisy qualities."""
    N = len(mean)
    if bounds == UNIFORM:
        tried = rng.integers(N, size=K)
        return float(mean[tried[np.argmax(mean[tried] + ORACLE * rng.normal(size=K))]])
    kernel, encoded = kernel_named("matern52", 0.3, 0.0625), GRIDS[which].encoded
    posterior: Any = Posterior(encoded, kernel, ORACLE**2, 0.5)
    if N < 1000:
        posterior = MatrixPosterior(_covariance(which), ORACLE**2, 0.5)
    sampler = GaussianProcessSampler(
        posterior, prior=np.full(N, 1 / N), bounds=bounds, exploration=0.1, inverse_temperature=beta
    )
    best, outcome = -math.inf, 0.0
    for _ in range(K):
        i = min(N - 1, int(np.searchsorted(np.cumsum(sampler.density()), rng.random())))
        quality = float(mean[i] + ORACLE * rng.normal())
        sampler.tell(i, quality)
        if quality > best:
            best, outcome = quality, float(mean[i])
    return outcome


@lru_cache(maxsize=2)
def _covariance(which: int) -> Any:
    encoded = GRIDS[which].encoded
    return kernel_named("matern52", 0.3, 0.0625).matrix(encoded, encoded)


def table_1(arm: str, gamma: float, mode: str, number: int) -> float:
    """One run at a geometric number of trials."""
    rng = np.random.default_rng((7, number))
    K, bounds = int(rng.geometric(gamma)), UNIFORM if arm == "uniform" else ADAPTIVE
    return searched(0, landscape(sigma(arm, gamma, mode)), bounds, 1.0, K, rng)


def white(name: str, gamma: float, number: int) -> float:
    """One run of bounds and β that the paper did not try, on the ε of Table 1, all of it at this γ."""
    rng, (bounds, beta) = np.random.default_rng((7, number)), WHITE[name]
    K = int(rng.geometric(gamma))
    return searched(0, landscape(sigma_of(bounds, gamma)), bounds, beta, K, rng)


def table_2(name: str, gamma: float, number: int) -> float:
    """One run in the black box: the base's noise stays as it is, whatever the densities cost."""
    rng = np.random.default_rng((7, number))
    K, (bounds, beta) = int(rng.geometric(gamma)), BLACK[name]
    return 1.0 - searched(0, black_box()[0], bounds, beta, K, rng)


def figure_1(task: str, arm: str, K: int, number: int) -> float:
    """One run at a fixed number of trials, the noise as printed."""
    bounds, noise = UNIFORM if arm == "uniform" else ADAPTIVE, NOISE[task][arm]
    mean = landscape(noise) if task == "mnist" else cifar(noise)[0]
    return searched(TASKS.index(task), mean, bounds, 1.0, K, np.random.default_rng((K, number)))


def figure_1_right(name: str, K: int, number: int) -> float:
    """The same in the black box."""
    bounds, beta = BLACK[name]
    return 1.0 - searched(0, black_box()[0], bounds, beta, K, np.random.default_rng((K, number)))


def cells() -> list[Cell]:
    """Everything, the cheap cells first: few trials, then many."""
    outcome = []
    for gamma in sorted(GAMMAS, reverse=True):
        runs = MORE if gamma >= FEW else RUNS
        outcome += [Cell(f"wang/table2/{name}/{gamma}", partial(table_2, name, gamma), runs) for name in BLACK]
        if gamma >= FEW:  # more than a hundred trials a run are left out
            outcome += [Cell(f"wang/white/{name}/{gamma}", partial(white, name, gamma), RUNS) for name in WHITE]
        for arm in PRINTED_1:
            for mode in MODES:
                run = partial(table_1, arm, gamma, mode)
                outcome.append(Cell(f"wang/table1/{arm}/{gamma}/{mode}", run, RUNS))
    for K in FIXED:
        outcome += [
            Cell(f"wang/figure1/right/{name}/{K}", partial(figure_1_right, name, K), RUNS) for name in BLACK
        ]
        outcome += [
            Cell(f"wang/figure1/{task}/{arm}/{K}", partial(figure_1, task, arm, K), runs)
            for task in TASKS
            for arm, runs in FIGURE_1_RUNS[task].items()
        ]
    return outcome
