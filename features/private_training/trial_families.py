"""What a trainer supplied by the user says that one training costs, in a form that dpbo can solve for its noise.

| family | `trial` has | one training costs |
|---|---|---|
| `DpSgd` | `noise_multiplier` | T Poisson-sampled Gaussians, batches as Opacus counts them |
| `PureDp` | `epsilon` | pure ε |
| `Zcdp` | `rho` | ρ |
| `Event` | `noise_multiplier` | the `dp_accounting` event that a function of noise and hyperparameters returns |
| `Declared` | — | a stated (ε, δ), which is priced and never solved for |

A setting is a number, the name of an axis, or a function of the hyperparameters. Every family gives the cost of one
training as a function of `noise`: more noise costs less. `PureDp` and `Zcdp` take it as ε = 1/noise and ρ = 1/(2
noise²).
"""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dpbo_core.errors import StudyInvalid
from dpbo_core.theorems.loss_profile import LossProfile

Point = Mapping[str, Any]
Setting = float | str | Callable[[Point], float]
CLIPPED_GRADIENTS_MOVE = 2.0  # how far one replaced record moves their sum, in units of the clipping norm


def setting_at(name: str, setting: Setting, point: Point) -> float:
    """Return the value of a family's setting at the hyperparameters `point`; refused unless a positive number."""
    if isinstance(setting, str) and setting not in point:
        raise StudyInvalid(f"{name} = {setting!r} is no axis of the space", remedy="name an axis, or give a number")
    value = point[setting] if isinstance(setting, str) else setting(point) if callable(setting) else setting
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < math.inf:
        raise StudyInvalid(f"{name} = {value!r} at {dict(point)}", remedy="give a positive number")
    return float(value)


def _whole(name: str, setting: Setting, point: Point) -> int:
    value = setting_at(name, setting, point)
    if not value.is_integer():
        raise StudyInvalid(f"{name} = {value:g} at {dict(point)}", remedy="give a whole number")
    return int(value)


class Family:
    """A declared cost of one training, as a function of its noise."""

    # the attribute of `trial` that holds what was solved for; "" for nothing
    variable: ClassVar[str] = "noise_multiplier"

    def key(self, point: Point, n_records: int) -> Hashable:  # noqa: ARG002
        """Return what the cost depends on beside the noise; the same for all candidates unless a family says."""
        return ()

    def profile(self, noise: float, point: Point, n_records: int, neighbours: str, times: int = 1) -> LossProfile:
        """Return the privacy profile of so many trainings together, rounded up."""
        raise NotImplementedError

    def handed(self, noise: float) -> float:
        """Return what `trial` hands to the trainer for this noise."""
        return noise

    def expected(self, noise: float, point: Point, n_records: int) -> Any:
        """Return what a trainer must report to `trial.spent`, if it reports anything."""
        raise NotImplementedError

    def described(self, noise: float, point: Point, n_records: int) -> str:  # noqa: ARG002
        """Return the noise of one training in a few words."""
        return f"{self.variable} {self.handed(noise):.4g}"


@dataclass(frozen=True)
class DpSgd(Family):
    """DP-SGD: noised sums of clipped gradients over Poisson-sampled batches.

    Attributes:
        batch_size: b, the expected batch, as Opacus counts: rate 1/⌈n/b⌉, and ⌈n/b⌉ steps an epoch.
        sampling_probability: the rate itself, instead of `batch_size`.
        epochs: passes over the records; or
        steps: the number of noised steps.
    """

    batch_size: Setting | None = None
    sampling_probability: Setting | None = None
    epochs: Setting | None = None
    steps: Setting | None = None

    def __post_init__(self) -> None:
        for names in (("batch_size", "sampling_probability"), ("epochs", "steps")):
            if sum(getattr(self, name) is not None for name in names) != 1:
                raise StudyInvalid(f"DpSgd needs {names[0]} or {names[1]}", remedy="give one of the two")

    def key(self, point: Point, n_records: int) -> tuple[float, int]:
        """Return the sampling rate and the number of steps at a candidate."""
        if self.batch_size is not None:
            an_epoch = math.ceil(n_records / setting_at("batch_size", self.batch_size, point))
            rate = 1.0 / an_epoch
        else:
            rate = setting_at("sampling_probability", self.sampling_probability or 0.0, point)
            if rate > 1.0:
                raise StudyInvalid(f"sampling_probability = {rate:g}", remedy="give a probability")
            an_epoch = math.ceil(1.0 / rate)
        if self.steps is not None:
            return rate, _whole("steps", self.steps, point)
        return rate, max(1, round(setting_at("epochs", self.epochs or 0.0, point) * an_epoch))

    def event(self, noise: float, point: Point, n_records: int, times: int = 1) -> Any:
        """Return the `dp_accounting` event of so many trainings."""
        import dp_accounting as dp

        rate, steps = self.key(point, n_records)
        return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), steps * times)

    def profile(self, noise: float, point: Point, n_records: int, neighbours: str, times: int = 1) -> LossProfile:
        """Return the privacy profile of one training, rounded up."""
        return LossProfile.of_event(
            self.event(noise, point, n_records, times), neighbours=neighbours, replaced_moves=CLIPPED_GRADIENTS_MOVE
        )

    def expected(self, noise: float, point: Point, n_records: int) -> Any:
        """Return the steps with their noise and rate, as an accountant reports them."""
        rate, steps = self.key(point, n_records)
        return [[noise, rate, steps]]

    def described(self, noise: float, point: Point, n_records: int) -> str:
        """Return noise, rate and steps in a few words."""
        rate, steps = self.key(point, n_records)
        return f"{steps} steps at rate {rate:.4g}, noise {noise:.4g}"


@dataclass(frozen=True)
class PureDp(Family):
    """A training that is `trial.epsilon`-differentially private, with δ = 0."""

    variable: ClassVar[str] = "epsilon"

    def profile(self, noise: float, point: Point, n_records: int, neighbours: str, times: int = 1) -> LossProfile:  # noqa: ARG002
        """Return the privacy profile of one training."""
        return LossProfile.of_epsilon_delta(times / noise)

    def handed(self, noise: float) -> float:
        """Return ε of one training."""
        return 1.0 / noise

    def expected(self, noise: float, point: Point, n_records: int) -> Any:  # noqa: ARG002
        """Return ε, as a budget accountant reports it."""
        return 1.0 / noise


@dataclass(frozen=True)
class Zcdp(Family):
    """A training that is `trial.rho`-zero-concentrated differentially private."""

    variable: ClassVar[str] = "rho"

    def profile(self, noise: float, point: Point, n_records: int, neighbours: str, times: int = 1) -> LossProfile:  # noqa: ARG002
        """Return the privacy profile of one training, rounded up."""
        return LossProfile.of_zcdp(times * self.handed(noise))

    def handed(self, noise: float) -> float:
        """Return ρ of one training."""
        return 0.5 / noise**2

    def expected(self, noise: float, point: Point, n_records: int) -> Any:  # noqa: ARG002
        """Return ρ, as a number that the trainer reports."""
        return self.handed(noise)


@dataclass(frozen=True)
class Event(Family):
    """A training whose `dp_accounting` event is `event_of(noise, params)`; more noise must cost less.

    Attributes:
        event_of: makes the event.
        replaced_moves: under replace-one, how far one replaced record moves the noised sum, in units of the noise's
            sensitivity.
    """

    event_of: Callable[[float, Point], Any]
    replaced_moves: float | None = None

    def key(self, point: Point, n_records: int) -> Hashable:  # noqa: ARG002
        """Return the event of unit noise, as text."""
        return repr(self.event_of(1.0, point))

    def profile(self, noise: float, point: Point, n_records: int, neighbours: str, times: int = 1) -> LossProfile:  # noqa: ARG002
        """Return the privacy profile of one training, rounded up; an event that cannot be priced is refused."""
        import dp_accounting as dp

        try:
            event = dp.SelfComposedDpEvent(self.event_of(noise, point), times)
            return LossProfile.of_event(event, neighbours=neighbours, replaced_moves=self.replaced_moves)
        except ValueError as error:
            reason = str(error)
        raise StudyInvalid("the event of one training cannot be priced", cause=reason, remedy="use another event")

    def expected(self, noise: float, point: Point, n_records: int) -> Any:  # noqa: ARG002
        """Return the event's report."""
        from dpbo.features.private_training.trial_child import spend_of

        return spend_of(self.event_of(noise, point))


@dataclass(frozen=True)
class Declared(Family):
    """A training of a stated price, (ε, δ): it is priced as it is, and never solved for.

    Attributes:
        epsilon: ε of one training.
        delta: δ of one training.
    """

    variable: ClassVar[str] = ""
    epsilon: Setting
    delta: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.delta, int | float) or not 0.0 <= self.delta < 1.0:
            raise StudyInvalid(f"Declared has delta = {self.delta!r}", remedy="give a number from 0 to below 1")

    def key(self, point: Point, n_records: int) -> float:  # noqa: ARG002
        """Return ε at a candidate."""
        return setting_at("epsilon", self.epsilon, point)

    def profile(self, noise: float, point: Point, n_records: int, neighbours: str, times: int = 1) -> LossProfile:  # noqa: ARG002
        """Return the privacy profile of one training."""
        return LossProfile.of_epsilon_delta(times * self.key(point, n_records), times * self.delta)

    def expected(self, noise: float, point: Point, n_records: int) -> Any:  # noqa: ARG002
        """Return (ε, δ), or ε, as a budget accountant reports it."""
        epsilon = self.key(point, n_records)
        return epsilon if self.delta == 0.0 else [epsilon, self.delta]

    def described(self, noise: float, point: Point, n_records: int) -> str:  # noqa: ARG002
        """Return the stated price."""
        return f"ε = {self.key(point, n_records):g}, δ = {self.delta:g}, as declared"
