"""Feldman and Cousins (1998), A Unified Approach to the Classical Statistical Analysis of Small Signals.

| symbol | name here | meaning | shape |
|---|---|---|---|
| y, σ | `seen`, `deviation` | a look at f, and the deviation of its Gaussian noise | scalars |
| G | `top` | f lies in [0, G] | scalar |
| R | — | density of y under f over its density under the best f in [0, G] | scalar ≤ 1 |
"""

import math

LEVEL = 0.9
_HALVINGS = 60


def bounded_interval(seen: float, deviation: float, top: float) -> tuple[float, float]:
    """The 90% interval of f in [0, G] from y ~ N(f, σ²): those f under which y is among the likeliest 90%.

    Likeliest by the ratio of y's density under f to that under the best f in [0, G].
    Source: Feldman and Cousins (1998), section IV.B, with a bound on both sides.
    """
    best = min(max(seen, 0.0), top)

    def end(bound: float) -> float:
        if _likelier(bound, seen, deviation, top) <= LEVEL:
            return bound
        inside, outside = best, bound
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2.0
            if _likelier(middle, seen, deviation, top) <= LEVEL:
                inside = middle
            else:
                outside = middle
        return outside  # of the two, the wider interval

    return end(0.0), end(top)


def _likelier(f: float, seen: float, deviation: float, top: float) -> float:
    """The probability under f of values whose likelihood ratio is above that of y."""
    best = min(max(seen, 0.0), top)
    fall = (seen - f) ** 2 - (seen - best) ** 2  # −2σ² times the logarithm of y's ratio
    return _normal(_reach(top - f, fall) / deviation) - _normal(-_reach(f, fall) / deviation)


def _reach(room: float, fall: float) -> float:
    """How far from f the ratio has fallen by `fall`, on a side where f is `room` from its bound."""
    straight = math.sqrt(fall)
    if straight <= room:
        return straight
    return (fall + room**2) / (2.0 * room) if room > 0.0 else math.inf


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))
