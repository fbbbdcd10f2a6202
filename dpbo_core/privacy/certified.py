"""What a method and a mechanism say of their own certificates, so that no list of their names is kept elsewhere.

| symbol | name here | meaning |
|---|---|---|
| Δ | `sensitivity` | the least that a draw may say one unit moves its query by; 0 where a theorem says less |
| — | `draws` | draws at least that made what a release shows |
| ε, ρ | `Worth.of` | what a draw's printed noise is worth; no pure ε for a Gaussian |
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpbo_core.privacy.plan import Spend
from dpbo_core.privacy.release import Release


@dataclass(frozen=True)
class Shown:
    """What the certificate of one release must show."""

    draws: int
    sensitivity: float


@dataclass(frozen=True)
class Worth:
    """What a mechanism's noise is worth as (ε, ρ).

    Attributes:
        of: from the printed spend.
        by_price: whether it is the printed price itself, since its noise has no formula of scale and sensitivity.
    """

    of: Callable[[Spend], tuple[float | None, float]]
    by_price: bool = False


@dataclass(frozen=True)
class Declared:
    """What is declared, by kind of method and by name of mechanism; whatever is not in here is refused."""

    methods: Mapping[str, Callable[[Release], Shown]]
    mechanisms: Mapping[str, Worth]


def ratio(spend: Spend) -> float:
    """Δ/s, of positive numbers."""
    return spend.sensitivity / spend.noise_scale


def one_record_moves(release: Release) -> float:
    """min(k, m)·G/m: what one unit's records can move a mean of m scores in [0, G] by.

    Raises:
        KeyError, TypeError, ValueError, ArithmeticError: the facts do not say.
    """
    G, k, m = (float(release.facts[key]) for key in ("score_range", "max_records_per_person", "n_validation"))
    return min(max(k, 1.0), m) * G / m


def numbers_shown(release: Release, *names: str) -> int:
    """How many of the numbers of these names a release shows; each has a draw of its own."""
    return sum(name in release.value for name in names)
