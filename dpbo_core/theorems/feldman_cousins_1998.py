"""Feldman and Cousins (1998), A Unified Approach to the Classical Statistical Analysis of Small Signals.

| symbol | name here | meaning | shape |
|---|---|---|---|
| y, σ | `observed`, `deviation` | a look at f, and the deviation of its Gaussian noise | scalars |
| y, b | `observed`, `scale` | a look at f, and the scale of its Laplace noise | scalars |
| G | `top` | f lies in [0, G] | scalar |
| R | — | density of y under f over its density under the best f in [0, G] | scalar ≤ 1 |
"""

import math

CONFIDENCE_LEVEL = 0.9
_HALVINGS = 60


def bounded_interval(observed: float, deviation: float, top: float) -> tuple[float, float]:
    """Return the 90% interval of f in [0, G] from y ~ N(f, σ²): all f for which y is among the 90% likeliest
    values.

    Likeliest by the ratio of y's density under f to that under the best f in [0, G].
    Source: Feldman and Cousins (1998), section IV.B, with a bound on both sides.
    """
    best = min(max(observed, 0.0), top)

    def end(bound: float) -> float:
        """Return the end of the interval towards `bound`, found by halving, or `bound` where it is inside."""
        if _probability_of_likelier(bound, observed, deviation, top) <= CONFIDENCE_LEVEL:
            return bound
        inside, outside = best, bound
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2.0
            if _probability_of_likelier(middle, observed, deviation, top) <= CONFIDENCE_LEVEL:
                inside = middle
            else:
                outside = middle
        return outside  # of the two, the wider interval

    return end(0.0), end(top)


def bounded_laplace_interval(observed: float, scale: float, top: float) -> tuple[float, float]:
    """Return the 90% interval of f in [0, G] from y ~ Laplace(f, b): y ± b·log 10 inside, y ± b·log 5 near a bound.

    By the ratio above all y beyond a bound would belong to an interval or none would: up to 95%. So f within
    b·log 10 of its nearer bound is in the interval iff y is at most b·log 5 from f on its other side, any other f
    iff |y − f| ≤ b·log 10: exactly nine times in ten, always where both bounds are within b·log 5; never empty.
    """
    both, one, at = scale * math.log(10.0), scale * math.log(5.0), min(max(observed, 0.0), top)

    def lower(value: float) -> float:
        """Return the lower end of the interval, or by symmetry the distance of its upper end from G."""
        return max(0.0, min(value - one, max(min(both, top / 2.0), value - both)))

    return lower(at), top - lower(top - at)


def _probability_of_likelier(f: float, observed: float, deviation: float, top: float) -> float:
    """Return the probability under N(f, σ²) of values whose likelihood ratio is above that of `observed`."""
    best = min(max(observed, 0.0), top)
    fall = (observed - f) ** 2 - (observed - best) ** 2  # −2σ² times the logarithm of y's ratio
    return _normal_cdf(_reach(top - f, fall) / deviation) - _normal_cdf(-_reach(f, fall) / deviation)


def _reach(room: float, fall: float) -> float:
    """Return how far from f −2σ² log(likelihood ratio) reaches `fall`, on a side whose bound is `room` away."""
    straight = math.sqrt(fall)
    if straight <= room:
        return straight
    return (fall + room**2) / (2.0 * room) if room > 0.0 else math.inf


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))
