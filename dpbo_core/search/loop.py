"""The search loop, turned inside out: ask which candidate to try, tell what was seen there.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Λ | `encoded` | candidates in the unit cube | (N, d) |
| t | `step` | the step that the next `ask` is for, from 1 | scalar |
| λ_t | `ask()` | the candidate to try at step t | index |
| y_t | `tell(index, value)` | what was seen, on the prior's scale | scalar |
"""

from dpbo_core.search.acquisition import Acquisition
from dpbo_core.search.posterior import Posterior


class BayesianSearch:
    """Bayesian optimisation over Λ by ask and tell, determined by its arguments and the values it is told.

    `ask` may be repeated, and a search told the same values again, in another process too, takes the same path.
    """

    def __init__(self, posterior: Posterior, acquisition: Acquisition) -> None:
        """A search before its first value.

        Args:
            posterior: nothing observed yet; it is this search's own, which adds what it is told.
            acquisition: how the next candidate is chosen.
        """
        self._posterior = posterior
        self._acquisition = acquisition
        self._visited: list[int] = []

    @property
    def posterior(self) -> Posterior:
        """The Gaussian process posterior of all candidates' scores, given every value so far."""
        return self._posterior

    @property
    def step(self) -> int:
        """The step t of the next `ask`: one more than the number of values so far."""
        return len(self._visited) + 1

    @property
    def visited(self) -> tuple[int, ...]:
        """The candidates with values so far, in order; one may be there more than once."""
        return tuple(self._visited)

    def ask(self) -> int:
        """The candidate with the largest acquisition; before any value the most central."""
        if self._visited:
            scores = self._acquisition.scores(self._posterior, self.step, self._visited)
        else:
            scores = -((self._posterior.candidates - 0.5) ** 2).sum(axis=1)
        return int(scores.argmax())

    def tell(self, index: int, value: float) -> None:
        """Add the value observed at `index`, which need not be the candidate asked for.

        Raises:
            ValueError: no such candidate, or a value that is not finite (the message does not show it).
        """
        self._posterior.observe(index, value)
        self._visited.append(int(index))
