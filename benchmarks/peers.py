"""The peers of the search, one step each: fit on the first t observations, score every candidate, take the best.

Hyperparameters are fixed for all. A peer starts afresh at each step, so a step's cost depends on t alone and a long
search is timed at evenly spaced steps: the middle of each stretch stands for it.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from benchmarks.workloads import LENGTHSCALE, NOISE
from dpbo_core.search.gp import Kernel, Matern52

Step = Callable[[int], Any]  # t → posterior mean (N,)


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def scikit_learn(kernel: Kernel, candidates: Any, indices: Any, values: Any) -> Step:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, Matern

    theirs = Matern(LENGTHSCALE, nu=2.5) if isinstance(kernel, Matern52) else RBF(LENGTHSCALE)

    def step(t: int) -> Any:
        model = GaussianProcessRegressor(theirs, alpha=NOISE, optimizer=None)
        model.fit(candidates[indices[:t]], values[:t])
        mean, std = model.predict(candidates, return_std=True)
        np.argmax(mean + 2.0 * std)
        return mean

    return step


def direct_cholesky(kernel: Kernel, candidates: Any, indices: Any, values: Any, *, kept: bool) -> Step:
    """NumPy and LAPACK: factor K + σ²I and solve with it for every candidate. `kept`: k(X, Λ) is not made again."""
    K_all = np.array([kernel.column(candidates, candidates[i]) for i in indices]) if kept else None

    def step(t: int) -> Any:
        chosen = indices[:t]
        K = kernel.matrix(candidates[chosen], candidates) if K_all is None else K_all[:t]
        L = cholesky(K[:, chosen] + NOISE * np.eye(t), lower=True, check_finite=False)
        V = solve_triangular(L, K, lower=True, check_finite=False)
        mean = solve_triangular(L, values[:t], lower=True, check_finite=False) @ V
        variance = np.maximum(kernel.variance - np.einsum("ij,ij->j", V, V), 0.0)
        np.argmax(mean + 2.0 * np.sqrt(variance))
        return mean

    return step


def botorch(kernel: Kernel, candidates: Any, indices: Any, values: Any) -> Step:
    """BoTorch's exact Gaussian process and `optimize_acqf_discrete` with its UCB (whose β is our √β squared)."""
    import torch
    from botorch.acquisition import UpperConfidenceBound
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf_discrete
    from gpytorch.kernels import MaternKernel, RBFKernel

    torch.set_num_threads(1)
    choices = torch.tensor(candidates)

    def step(t: int) -> Any:
        X, y = choices[indices[:t]], torch.tensor(values[:t])[:, None]
        covariance = MaternKernel(nu=2.5) if isinstance(kernel, Matern52) else RBFKernel()
        model = SingleTaskGP(
            X, y, torch.full_like(y, NOISE), covar_module=covariance, outcome_transform=None, input_transform=None
        )
        model.covar_module.lengthscale = LENGTHSCALE
        model.mean_module.constant.data.fill_(0.0)
        model.eval()
        with torch.no_grad():
            optimize_acqf_discrete(UpperConfidenceBound(model, beta=4.0), q=1, choices=choices, unique=False)
        return model

    return step
