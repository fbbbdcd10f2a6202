"""What a mechanism costs at every Rényi order.

| symbol | name here | meaning | shape |
|---|---|---|---|
| α | `alpha` | Rényi order | scalar > 1 |
| ε(α) | `at(alpha)` | Rényi cost: D_α between neighbours is at most this, in both directions | scalar ≥ 0 |
| ε | `epsilon` | the pure part | scalar ≥ 0 |
| ρ | `rho` | the part in zero-concentrated differential privacy, αρ at α | scalar ≥ 0 |

Sources: Bun, Steinke (2016), Lemma B.1 (randomised response is the worst pure mechanism at every order); Mironov
(2017), Proposition 1 (parts add up).
"""

import math
from dataclasses import dataclass

ORDERS = tuple(1.0 + 10.0 ** (k / 24.0) for k in range(-60, 145))  # 1.003 … a million


@dataclass(frozen=True)
class RenyiCurve:
    """The Rényi cost of a mechanism at every order: pure ε, ρ-zCDP and a table of orders, which add up."""

    epsilon: float = 0.0  # of the pure part
    rho: float = 0.0  # of the zCDP part
    # (order, cost), orders rising; between two orders the next higher one counts
    table: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        costs = (self.epsilon, self.rho, *(cost for _, cost in self.table))
        orders = [order for order, _ in self.table]
        if (
            not all(cost >= 0.0 for cost in costs)
            or orders != sorted(set(orders))
            or not all(a > 1.0 for a in orders)
        ):
            raise ValueError("a Rényi curve has costs of at least 0 at rising orders above 1")  # NaN fails too

    def __add__(self, other: "RenyiCurve") -> "RenyiCurve":
        if self.table and other.table:
            orders = sorted({order for order, _ in self.table + other.table})
            table = tuple((order, self._cost_in_table(order) + other._cost_in_table(order)) for order in orders)
        else:
            table = self.table or other.table
        return RenyiCurve(self.epsilon + other.epsilon, self.rho + other.rho, table)

    def __or__(self, other: "RenyiCurve") -> "RenyiCurve":
        """Return the larger curve at every order: the cost where a changed record affects only one of two parts."""
        if not self.table and not other.table:
            return RenyiCurve(max(self.epsilon, other.epsilon), max(self.rho, other.rho))
        orders = sorted({order for order, _ in self.table + other.table})
        return RenyiCurve(table=tuple((order, max(self.at(order), other.at(order))) for order in orders))

    @property
    def pure(self) -> bool:
        """Whether the mechanism's cost is a pure ε, with no δ at any order."""
        return self.rho == 0.0 and not self.table

    @property
    def orders(self) -> tuple[float, ...]:
        """The orders α to try when a guarantee (ε, δ) is read off this curve."""
        return tuple(order for order, _ in self.table) or ORDERS

    def at(self, alpha: float) -> float:
        """Return the Rényi divergence ε(α) at order α > 1, rounded up."""
        pure = 0.0
        if self.epsilon > 0.0:
            p = 1.0 / (1.0 + math.exp(-self.epsilon))
            response = self.epsilon + math.log(p + (1.0 - p) * math.exp(-2.0 * (alpha - 1.0) * self.epsilon)) / (
                alpha - 1.0
            )
            # the logarithm cancels where ε is small; 1e-15/(α−1) covers it, and αε²/2 takes over
            rounding = 1e-15 * (1.0 + self.epsilon + 1.0 / (alpha - 1.0))
            pure = min(self.epsilon, 0.5 * alpha * self.epsilon**2, max(0.0, response) + rounding)
        return (pure + alpha * self.rho + self._cost_in_table(alpha)) * (1.0 + 1e-14)

    def _cost_in_table(self, alpha: float) -> float:
        """The table's cost at its first order from `alpha` on; infinite beyond the last, 0 without a table."""
        if not self.table:
            return 0.0
        return next((cost for order, cost in self.table if order >= alpha), math.inf)
