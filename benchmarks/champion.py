"""Coverage and power of the 90% interval of a comparison with a champion.

    python -m benchmarks.champion [--json]

Coverage is of 4,000 draws a row at ε = 1: n units of a population, two models' scores of each, and the noise.
Alike: both models are as good. Shifted: the challenger is better on one half of the population and worse on the
other. Persons: each of n persons has 1 to 6 records, which resemble each other, and counts once. Power is the least
difference in accuracy that is called better with 80% chance, from 2,000 records, beside that of two reports at ε/2
each, of four cells, whose interval must take the two samples as independent.

AUC: a row more each where the second class has a twentieth of the records, and where the challenger fails on one
record in a hundred; 1,000 units. Its power is the interval's half width beside that of two reports at ε/2 each, of
16 bins (DeLong's variance, the noise of each bin's count).
"""

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from benchmarks.rows import Row, main
from dpbo_core.models.scores.roc_auc import RocAuc
from dpbo_core.report.difference import NoisedPairs, PairedSums, classes_factor, detectable
from dpbo_core.report.evaluated_model import ComparedModel
from dpbo_core.report.ranked_pairs import PairCounter, moved_by_a_unit, person_weight

DRAWS, N, EPSILON, LEVELS = 4_000, 500, 1.0, 4096
SCORES = ("accuracy", "brier", "log loss")
AT_LEAST = 0.895
N_PAIRED, B = 1_000, RocAuc.n_cells
KINDS_OF_PAIRS = ("alike", "shifted", "few positives", "rare failures", "persons")


def scores(name, p, y):
    """Scores in [0, 1] of probabilities for classes, as a study has them."""
    if name == "accuracy":
        return ((p > 0.5) == y).astype(float)
    if name == "brier":
        return 1.0 - (p - y) ** 2
    return 1.0 - np.minimum(-np.log(np.clip(np.where(y, p, 1.0 - p), 1e-12, 1.0)), math.log(100)) / math.log(100)


def population(kind, rng, size):
    """Classes and both models' probabilities of `size` units, and persons' numbers of records."""
    wide = (size, 6) if kind == "persons" else (size,)
    x = rng.normal(size=wide)
    if kind == "persons":
        x += 2.0 * rng.normal(size=(size, 1))
    y = x + rng.normal(size=wide) > 0
    better = np.where(x > 0, 1.6, 0.7) if kind == "shifted" else 1.0
    challenger = 1.0 / (1.0 + np.exp(-2.0 * better * (x + 0.25 * rng.normal(size=wide))))
    champion = 1.0 / (1.0 + np.exp(-2.0 * (x + 0.25 * rng.normal(size=wide))))
    return y, challenger, champion, rng.integers(1, 7, size=size)


def differences(name, kind, rng, size):
    """d and |d| of each unit, a person's as means over the records, rounded as a comparison rounds them."""
    y, challenger, champion, owned = population(kind, rng, size)
    d = scores(name, challenger, y) - scores(name, champion, y)
    d = d if name == "accuracy" else np.floor(d * LEVELS + 0.5) / LEVELS
    if kind != "persons":
        return d, np.abs(d)
    there = np.arange(6) < owned[:, None]
    return tuple((np.where(there, one, 0.0)).sum(axis=1) / owned for one in (d, np.abs(d)))


def covered(name, kind):
    """The share of draws whose interval holds the population's difference, and the intervals' mean width."""
    rng, exact, b = np.random.default_rng(64), name == "accuracy" and kind != "persons", 2.0 / EPSILON
    truth = float(np.mean(differences(name, kind, rng, 2_000_000)[0]))
    grid = 1 if exact else LEVELS
    a, inside, width = math.exp(-1.0 / (b * grid)), 0, 0.0

    @lru_cache(None)
    def interval(total, absolute):
        return PairedSums(N, b, total, absolute, exact, step=1.0 / grid).interval

    for _ in range(DRAWS):
        d, size = differences(name, kind, rng, N)
        z = rng.geometric(1.0 - a, size=4)
        low, high = interval(d.sum() + (z[0] - z[1]) / grid, size.sum() + (z[2] - z[3]) / grid)
        inside += low - 1e-12 <= truth <= high + 1e-12
        width += high - low
    return inside / DRAWS, width / DRAWS


def unpaired(n, epsilon, psi, accuracy=0.85):
    """The least difference that two reports at ε/2 each show with 80% chance."""
    noise = 2.0 * 2.0 * 2.0 * (4.0 / epsilon) ** 2  # of each report two cells with Laplace noise of scale 2/(ε/2)
    assumed = math.sqrt(2.0 * n * accuracy * (1.0 - accuracy) + noise)
    return (1.6449 * assumed + 0.8416 * math.sqrt(n * psi + noise)) / n


def pair_counter(n, *, of_persons=False):
    """The product's counter of pairs, for codes that are made here."""
    side, weight = ComparedModel(None, None, RocAuc()), person_weight(n) if of_persons else 1
    return PairCounter(None, challenger=side, champion=side, n_units=n, weight=weight, of_persons=of_persons)


def coded(kind, rng, size, apart=0.25):
    """Codes of records, (size,), as `PairCounter` has them; of persons (size, 6), −1 for what a person has not."""
    y, _, _, owned = population(kind, rng, size)
    wide = y.shape
    x = rng.normal(size=wide) + (rng.normal(size=(size, 1)) if kind == "persons" else 0.0)
    y = x + rng.normal(size=wide) > (2.3 if kind == "few positives" else 0.7)
    challenger, champion = (
        x + scale * apart * rng.normal(size=wide) for scale in ((0.6 if kind == "shifted" else 1.0), 1.0)
    )
    if kind == "rare failures":
        challenger = np.where(rng.random(wide) < 0.01, -3.0 * x, challenger)
    a, b = (np.clip((one + 10.0) * 3000, 0, B - 1).astype(np.int64) for one in (challenger, champion))
    codes = 1 + (y * B + a) * B + b
    return codes if kind != "persons" else np.where(np.arange(6) < owned[:, None], codes, -1)


def pair_sums(kind, codes, n):
    """2C, V, κP and κQ of coded records, or of persons."""
    counter = pair_counter(n, of_persons=kind == "persons")
    if kind != "persons":
        return counter._of_codes(codes)
    owners = np.repeat(np.arange(len(codes)), 6).reshape(-1, 6)
    there = codes >= 0
    weights = np.broadcast_to(counter.weight // there.sum(axis=1, keepdims=True), codes.shape)
    return counter._sums(codes[there], weights[there], owners[there])


def covered_by_pairs(kind, epsilon=EPSILON, n=N_PAIRED, draws=DRAWS, apart=0.25):
    """The share of draws whose interval holds the difference of AUCs, the noise intervals', and the mean width."""
    rng, of_persons = np.random.default_rng(64), kind == "persons"
    C, _, P, Q = pair_sums(kind, coded(kind, rng, 300_000, apart), 4 if not of_persons else 300_000).tolist()
    kappa = classes_factor(4 if not of_persons else 300_000)
    truth = C / (2.0 * P * Q / kappa**2) * (person_weight(300_000) ** 2 if of_persons else 1)
    weight, inside, on_these, width = person_weight(n) if of_persons else 1, 0, 0, 0.0
    scale = moved_by_a_unit(n, weight) / epsilon
    for _ in range(draws):
        exact = pair_sums(kind, coded(kind, rng, n, apart), n)
        z = rng.geometric(-math.expm1(-1.0 / scale), size=(2, 4))
        seen = NoisedPairs(n, scale, tuple(map(int, exact + z[0] - z[1])), weight, of_persons=of_persons)
        own = NoisedPairs(n, scale, tuple(map(int, exact)), weight, of_persons=of_persons).mean
        (low, high), (least, most) = seen.interval, seen.noise_interval
        inside, on_these = inside + (low <= truth <= high), on_these + (least <= own <= most)
        width += high - low
    return inside / draws, on_these / draws, width / draws


def unpaired_width(n, epsilon, apart, share=0.31):
    """Half the width of the interval of the difference of two reports' AUCs, each at ε/2."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=4_000)
    y = x + rng.normal(size=4_000) > 0.7
    s = x + apart * rng.normal(size=4_000)
    right = (np.sign(s[y][:, None] - s[~y]) + 1.0) / 2.0
    P, Q = share * n, (1.0 - share) * n
    sampled = right.mean(axis=1).var() / P + right.mean(axis=0).var() / Q
    noise = 2.0 * (4.0 / epsilon) ** 2 * 16 / 12 * (1.0 / P**2 + 1.0 / Q**2)
    return 1.6449 * math.sqrt(2.0 * (sampled + noise))


def pair_rows() -> Iterator[Row]:
    for n in (500, 2_000, 10_000):
        for epsilon in (0.25, 1.0):
            for apart, agree in ((0.1, "96%"), (0.25, "91%"), (0.5, "83%")):
                half = covered_by_pairs("alike", epsilon, n, 200, apart)[2] / 2.0
                beside = unpaired_width(n, epsilon, apart)
                what = f"half width by AUC, {n:,} records, ε = {epsilon:g}, predictions agree on {agree}"
                yield Row(what, half, unit="", at_most=beside, note=f"unpaired: {beside:.3f}")
    for kind in KINDS_OF_PAIRS:
        share, on_these, width = covered_by_pairs(kind)
        note = f"width {width:.3f}; on these records {on_these:.3f}"
        yield Row(f"coverage, AUC, {kind}, n = {N_PAIRED:,}", share, unit="", at_least=AT_LEAST, note=note)


def rows() -> Iterator[Row]:
    for psi in (0.05, 0.1, 0.2, 0.4):
        for epsilon in (0.25, 1.0):
            least = detectable(2_000, 2.0 / epsilon, psi, exact=True)
            apart = unpaired(2_000, epsilon, psi)
            what = f"least difference, 2,000 records, ε = {epsilon:g}, models agree on {1 - psi:.0%}"
            yield Row(what, least, unit="", at_most=apart if psi <= 0.2 else None, note=f"unpaired: {apart:.3f}")
    for name in SCORES:
        for kind in ("alike", "shifted", "persons"):
            share, width = covered(name, kind)
            yield Row(
                f"coverage, {name}, {kind}, n = {N}", share, unit="", at_least=AT_LEAST, note=f"width {width:.3f}"
            )
    yield from pair_rows()


if __name__ == "__main__":
    main(rows)
