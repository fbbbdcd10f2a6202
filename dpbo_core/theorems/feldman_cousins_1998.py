"""Feldman and Cousins (1998), A Unified Approach to the Classical Statistical Analysis of Small Signals.

| symbol | name here | meaning | shape |
|---|---|---|---|
| y, σ | `observed`, `deviation` | a look at f, and the deviation of its Gaussian noise | scalars |
| y, b | `observed`, `scale` | a look at f, and the scale of its Laplace noise | scalars |
| G | `top` | f lies in [0, G] | scalar |
| R | — | density of y under f over its density under the best f in [0, G] | scalar ≤ 1 |
"""

import math

LEVEL = 0.9
_HALVINGS = 60


def bounded_interval(observed: float, deviation: float, top: float) -> tuple[float, float]:
    """The 90% interval of f in [0, G] from y ~ N(f, σ²): those f under which y is among the likeliest 90%.

    Likeliest by the ratio of y's density under f to that under the best f in [0, G].
    Source: Feldman and Cousins (1998), section IV.B, with a bound on both sides.
    """
    best = min(max(observed, 0.0), top)

    def end(bound: float) -> float:
        if _likelier(bound, observed, deviation, top) <= LEVEL:
            return bound
        inside, outside = best, bound
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2.0
            if _likelier(middle, observed, deviation, top) <= LEVEL:
                inside = middle
            else:
                outside = middle
        return outside  # of the two, the wider interval

    return end(0.0), end(top)


def bounded_laplace_interval(observed: float, scale: float, top: float) -> tuple[float, float]:
    """The 90% interval of f in [0, G] from y ~ Laplace(f, b): those f under which y is among the likeliest 90%.

    y's ratio is e^(−r/b), where r is y's distance from f, or that of the bound between them where y lies beyond it.
    So all values beyond a bound are equally likely, and f belongs to the interval iff y, put into [0, G], is within
    t(f) of it. Inside, y ± b·log 10; never empty, covers at least nine times in ten.
    Source: Feldman and Cousins (1998), section IV.B, worked out for the Laplace distribution.
    """
    at = min(max(observed, 0.0), top)

    def lower(value: float) -> float:
        low, high = 0.0, value
        if _within(0.0, scale, top) >= value:
            return 0.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            low, high = (low, middle) if middle + _within(middle, scale, top) >= value else (middle, high)
        return low  # of the two, the wider interval

    return lower(at), top - lower(top - at)


def _within(f: float, scale: float, top: float) -> float:
    """t(f): the least distance from f within which y is with probability 0.9, once y is put into [0, G]."""
    both, one = scale * math.log(10.0), scale * math.log(5.0)
    near, far = min(f, top - f), max(f, top - f)
    return both if near >= both else max(near, min(one, far))


def _likelier(f: float, observed: float, deviation: float, top: float) -> float:
    """The probability under f of values whose likelihood ratio is above that of y."""
    best = min(max(observed, 0.0), top)
    fall = (observed - f) ** 2 - (observed - best) ** 2  # −2σ² times the logarithm of y's ratio
    return _normal_cdf(_reach(top - f, fall) / deviation) - _normal_cdf(-_reach(f, fall) / deviation)


def _reach(room: float, fall: float) -> float:
    """How far from f the ratio has fallen by `fall`, on a side where f is `room` from its bound."""
    straight = math.sqrt(fall)
    if straight <= room:
        return straight
    return (fall + room**2) / (2.0 * room) if room > 0.0 else math.inf


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))
