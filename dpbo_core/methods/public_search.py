"""What the public training set says of every candidate: ordinary Bayesian optimisation, which costs no privacy.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Λ, N | `problem.candidates` | the candidates | N points |
| p(λ) | `problem.public_score` | cross-validated score on the public training set | scalar |
| R | `n_tried` | candidates that are cross-validated | scalar ≤ N |
| — | `tried`, `scores` | which they are, in order, and their p | (R,) |
| p̂ | `mean` | p where it is known, the Gaussian process's mean of it elsewhere | (N,) |
| e | `doubt` | √((½·√(p⁺(G − p⁺)/n))² + (G/100)²), p⁺ the largest p and n the public records | scalar |
| ν | `noise_scale` | of a private choice, in units of the score | scalar |
| b | `head_start` | is added to each sum before that choice: −(ν/e)²(p⁺ − p), never above 0 | (n_chosen,) |
| e_i² | `error_variances` | vᵢ/2n + (.003G)², vᵢ the variance of a record's score less the best's | (n_chosen,) |
| π₀ | `base_measure` | a public law over the candidates; ν·log π₀ is added before the choice | (n_chosen,) |

Everything here is a function of the public training set, the study and the search seed: it may be shown to anyone,
and may be done again in another process with the same outcome.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dpbo_core.methods.problem import Problem, PublicSearch
from dpbo_core.models.integer_sums import GRID, Pairing
from dpbo_core.search.gp import JITTER, Matern52, Posterior, kernel_named
from dpbo_core.search.search_space import sobol_subset

REFIT_GROWTH = 1.3  # the kernel is fitted again when so many times more is known
NOISE_VARIANCE = 1e-4  # of the standardised score: folds agree about a candidate to about a hundredth
EXPLORATION_BETA = 4.0  # β of the public search: two standard deviations
DOUBT_ERRORS = 0.5  # standard errors by which the public and the sensitive score are thought to differ
SCORE_SHIFT = 0.01  # of the score's range: the same however large the public set, for the populations may differ
MAX_HANDICAP_SCALES = 64.0  # noise scales: a handicap beyond which nothing is ever chosen
COMPARISON_DIGITS = 9  # what is compared is rounded, so that equals stay equal whatever the machine's rounding
ERROR_SHARE = 0.5  # of the squared standard error, for candidates are scored on the same public records
PAIRED_SHIFT = 0.003  # of the score's range: what two populations differ by in the difference of two candidates
TAIL = 4.0  # of the base measure: between 2, which misleads less, and an exponential law, which helps more
FLOOR = 0.02  # share of the base measure that is uniform: no head start exceeds log N + log 50 noise scales
N_PAIRED_CANDIDATES = 16  # candidates whose records' scores are compared with those of the best
BOUND_SHARES = (0.9, 0.98, 0.995, 0.999, 1.0)  # shares of those differences that a bound may keep
MIN_PAIRING_NOISE = 0.1  # doubts: noise below which scores are not paired
DOUBT_LENGTHSCALE = 0.3  # times √d: over what distance that difference changes

Differences = dict[int, NDArray[np.int64]]


def search_on_public_data(problem: Problem, trials: int) -> PublicSearch:
    """Return the cross-validated public scores of R = `trials` candidates, or of all of Λ if it has no more.

    Half are spread evenly and half are found by a search. The problem's own results are returned if they are of the
    same search and number. Each candidate costs `cross_validation.N_FOLDS` trainings.
    """
    n_tried, earlier = min(len(problem.candidates), trials), problem.public_search
    if earlier is not None and earlier.search == problem.search and len(earlier.tried) == n_tried:
        return earlier
    tried = list(required_trials(problem, trials))
    scores = [problem.public_score(index) for index in tried]
    if len(tried) == len(problem.candidates):
        return PublicSearch(problem.search, tuple(tried), np.array(scores), np.array(scores))
    centre, scale = float(np.mean(scores)), float(np.std(scores)) or 1.0
    posterior, fitted_at = _posterior(problem, tried, (np.array(scores) - centre) / scale), len(tried)
    while len(tried) < n_tried:
        bound = posterior.mean + math.sqrt(EXPLORATION_BETA) * posterior.std
        bound[tried] = -np.inf
        index = int(np.argmax(bound.round(COMPARISON_DIGITS)))
        tried.append(index)
        scores.append(problem.public_score(index))
        if len(tried) >= REFIT_GROWTH * fitted_at:
            fitted_at = len(tried)
            posterior = _posterior(problem, tried, (np.array(scores) - centre) / scale)
        else:
            posterior.observe(index, (scores[-1] - centre) / scale)
    mean = np.clip(posterior.mean * scale + centre, 0.0, problem.score_range)
    mean[tried] = scores
    return PublicSearch(problem.search, tuple(tried), np.array(scores), mean)


def required_trials(problem: Problem, trials: int) -> tuple[int, ...]:
    """Return indices of candidates that a public search tries in any case: all, or half of `trials`, spread evenly.

    Known before any score is, so they may be scored elsewhere and in any order.
    """
    N = len(problem.candidates)
    if trials >= N:
        return tuple(range(N))
    return sobol_subset(problem.candidates, (trials + 1) // 2, seed=problem.search.seed)


def public_shortlist(problem: Problem, n_chosen: int, public_search: PublicSearch) -> tuple[int, ...]:
    """Return the indices of `n_chosen` candidates, or of all, among which the best on unseen records probably is.

    The candidate for each place maximises p plus a random smooth function of `DOUBT_ERRORS` standard errors, which
    models how far the public scores p may be off. So a flat or uncertain p gives a spread-out list, and a sharp p a
    list close to its maximum. The first place is the maximum of p itself.
    """
    N = len(problem.candidates)
    if n_chosen >= N:
        return tuple(range(N))
    tried, p = np.array(public_search.tried), public_search.scores
    d, e = problem.candidates.encoded.shape[1], doubt(problem, float(p.max()))
    K = Matern52(DOUBT_LENGTHSCALE * math.sqrt(max(1, d))).matrix(*(problem.candidates.encoded[tried],) * 2)
    L = np.linalg.cholesky(K + JITTER * np.eye(len(K)))
    rng = np.random.default_rng(problem.search.seed)
    left, chosen = np.ones(len(tried), dtype=bool), [int(np.argmax(p))]
    while len(chosen) < n_chosen:
        left[chosen[-1]] = False
        imagined = p + e * (L @ rng.standard_normal(len(p)))
        chosen.append(int(np.argmax(np.where(left, imagined.round(COMPARISON_DIGITS), -np.inf))))
    return tuple(int(index) for index in tried[chosen])


def head_start(
    problem: Problem, listed: tuple[int, ...], public_search: PublicSearch, noise_scale: float
) -> NDArray[np.int64]:
    """Return public handicaps of the listed candidates, in steps of the sum: 0 for the public best, negative for
    worse.

    A private score with noise ν and a public one with error e are best averaged with weights 1/ν² and 1/e². So the
    public score decides where noise is large, and has little influence where it is small. No record moves the
    handicaps, so they cost no privacy.
    """
    p = public_search.mean[list(listed)].round(COMPARISON_DIGITS)
    e = doubt(problem, float(p.max()))
    behind = np.minimum((noise_scale / e) ** 2 * (p.max() - p), MAX_HANDICAP_SCALES * noise_scale)
    steps: NDArray[np.int64] = -np.rint(behind / problem.metric_per_step).astype(np.int64)
    return steps


def base_measure(
    problem: Problem,
    listed: tuple[int, ...],
    public_search: PublicSearch,
    noise_scale: float,
    apart: Differences,
) -> NDArray[np.float64]:
    """Return public weights of the listed candidates for a private choice, (n,): each at least FLOOR/n.

    They are ∝ (1 + ν(p⁺ − p)/4e²)⁻⁴, mixed with a uniform share of 1/50, where p are the public scores and p⁺ the
    best of them. `noise_scale` ν is in units of the score, and `apart` is what `public_differences` returns.

    For small differences the choice averages the private and the public score by their precision, so where noise is
    large the public score decides. A candidate is never handicapped by more than log N + log 50 noise scales.

    Privacy: no record changes a weight. So the sums with a head start have the sensitivity of the sums, and the
    choice among them has the same ε. Utility: with probability at least 1 − e^−t the choice is at most
    ν(t + log 1/π₀(best)) below the best by the sums, whatever the public set says (McKenna, Sheldon 2020).
    """
    p = public_search.mean[list(listed)].round(COMPARISON_DIGITS)
    variances = error_variances(problem, listed, public_search, apart)
    weights = (1.0 + noise_scale * (p.max() - p) / variances / TAIL) ** -TAIL
    measure: NDArray[np.float64] = (1.0 - FLOOR) * weights / weights.sum() + FLOOR / len(p)
    return measure


def error_variances(
    problem: Problem, listed: tuple[int, ...], public_search: PublicSearch, apart: Differences
) -> NDArray[np.float64]:
    """Return e² of each listed candidate, (n,): how far its public score less the best's may be off, squared.

    It is half of the difference's squared standard error plus `PAIRED_SHIFT`². A candidate outside `apart` gets the
    mean of those in it. Where `apart` is empty, the standard error is that of a single score.
    """
    G = problem.score_range
    shift = (PAIRED_SHIFT * G) ** 2
    if not apart:
        best = float(public_search.scores.max())
        return np.full(len(listed), ERROR_SHARE * problem.aggregate.doubt(best, problem.n_training) ** 2 + shift)
    squared_errors = {index: float(steps.var()) * (G / GRID) ** 2 / len(steps) for index, steps in apart.items()}
    mean = sum(squared_errors.values()) / len(squared_errors)
    return np.array([ERROR_SHARE * squared_errors.get(index, mean) + shift for index in listed])


def public_differences(problem: Problem, public_search: PublicSearch) -> Differences:
    """Return, by candidate, each public record's score less that of the public best, in steps, (n,).

    The candidates are the `N_PAIRED_CANDIDATES` best in public, without the first. The result is empty where a
    record is right or wrong, or has no score of its own.
    """
    if not problem.score.graded:
        return {}
    best = np.argsort(-public_search.scores.round(COMPARISON_DIGITS), kind="stable")[:N_PAIRED_CANDIDATES]
    first, *others = (public_search.tried[int(place)] for place in best)
    steps = problem.public_steps(first)
    return {index: problem.public_steps(index) - steps for index in others}


def pairing(
    problem: Problem, public_search: PublicSearch, noise_scale: float, apart: Differences
) -> Pairing | None:
    """Return the candidate that others are compared with, and a bound in steps to which differences are clipped.

    None if comparing in pairs gains nothing over the plain scores. `noise_scale` is ν of a choice among plain
    scores, in units of the score, and `apart` is what `public_differences` returns.

    A small bound means less noise but biases the mean difference of heavy-tailed scores. The bound with the least
    sum of noise and bias is taken, measured on public records between the candidates that are best there. If noise
    is small beside the error of the public scores there is little to gain, and a bias that grows where the public
    set misleads to lose: the result is None.
    """
    if noise_scale < MIN_PAIRING_NOISE * doubt(problem, float(public_search.scores.max())):
        return None
    differences = np.concatenate([*(np.abs(steps) for steps in apart.values()), np.zeros(0, dtype=np.int64)])
    differences = differences[differences > 0]
    if differences.size == 0:
        return None
    if any(steps.any() and np.abs(steps[steps != 0]).min() == GRID for steps in apart.values()):
        return None  # right or wrong, and nothing between

    def loss(clipped: int) -> float:
        moved = max(abs(float((np.clip(steps, -clipped, clipped) - steps).mean())) for steps in apart.values())
        return noise_scale * 2 * clipped / GRID + moved * problem.score_range / GRID

    bounds = np.quantile(differences, BOUND_SHARES, method="higher")
    clipped = min((int(bound) for bound in bounds), key=loss)
    gains = 2 * clipped < GRID and loss(clipped) < noise_scale
    best = public_search.tried[int(np.argmax(public_search.scores.round(COMPARISON_DIGITS)))]
    return Pairing(best, clipped) if gains else None


def doubt(problem: Problem, best: float) -> float:
    """Return e, the expected error of a public score near `best`: sampling, and how the populations may differ."""
    return math.hypot(
        DOUBT_ERRORS * problem.aggregate.doubt(best, problem.n_training), SCORE_SHIFT * problem.score_range
    )


def _posterior(problem: Problem, tried: list[int], values: NDArray[np.float64]) -> Posterior:
    candidates, name = problem.candidates.encoded, problem.search.kernel
    from dpbo_core.search.likelihood import fit

    fitted = fit(candidates[tried], values, NOISE_VARIANCE, name)
    kernel = kernel_named(name, fitted.lengthscale, fitted.variance)
    posterior = Posterior(candidates, kernel, NOISE_VARIANCE, fitted.mean)
    for index, value in zip(tried, values, strict=True):
        posterior.observe(index, float(value))
    return posterior
