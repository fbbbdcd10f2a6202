"""Adaptive private selection (Wang et al. 2023): for when the TRAINING set is sensitive too.

| symbol | name here | meaning | shape |
|---|---|---|---|
| M_λ | `Trial` | one trial: a model and its quality, private together | (x, q) |
| K | `law` | number of trials: random, hidden | integer |
| π_j, c, C | `Sampler`, `lower`, `upper` | density that trial j draws λ from, c ≤ π_j/π₀ ≤ C | (N,) |
| η | `shape` | shape of K's truncated negative binomial | scalar > −1 |
| E[K] | `search.steps` | expected trials | scalar > 1 |
| τ, β | `exploration`, `inverse_temperature` | π ∝ exp(β(μ + τσ)), projected | scalars |

All trials run inside ONE step: nothing that can be counted from outside depends on K. What leaves is the best
(model, hyperparameters, quality) alone.
"""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from dpbo.features.private_training.base import Trial, check_every_point, training_loss
from dpbo.features.private_training.hypo_search import (
    HypoSearch,
    Law,
    Terms,
    assumed_of,
    calibrate,
    informed,
    law_of,
)
from dpbo.features.private_training.trial_price import own_trainer_rules
from dpbo.features.private_training.union import BASES, PUBLIC_TRAINING, base_named, check_base
from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.noise import rehearse_draws
from dpbo_core.mechanisms.random_stopping import NegativeBinomialStopping, Stopping
from dpbo_core.mechanisms.repeat_and_select import RepeatAndSelect, selection_epsilon
from dpbo_core.methods.contract import Draws, Method, Outlook, Scope, guarantee_of, refuse_persons, too_small
from dpbo_core.methods.problem import Problem, stated_kernel
from dpbo_core.privacy.amounts import allowed_units, from_units, spent_units
from dpbo_core.privacy.certified import RECORD_UNITS, CertificateRules
from dpbo_core.privacy.guarantee import Evidence, PrivacyGuarantee, PrivacyUnit, Standing
from dpbo_core.privacy.release import PrivacyPlan, Release
from dpbo_core.search.adaptive_sampling import GaussianProcessSampler, Projection, Sampler, UniformSampler
from dpbo_core.search.estimates import CENTRE, SPREAD
from dpbo_core.search.gp import Posterior
from dpbo_core.theorems.selection_price import pure_selection_epsilon
from dpbo_core.theorems.trial_counts import CappedCount
from dpbo_core.theorems.wang_2023 import Calibration

SELECTION_EVIDENCE = Evidence(
    Standing.CORRECTED,
    "Papernot and Steinke 2022, priced by the privacy profile of a trial, or exactly where it is pure",
)
ADAPTIVE_EVIDENCE = Evidence(
    Standing.CORRECTED, "Wang et al. 2023, with bounded densities, priced by the privacy profile of a trial"
)
ONE_EVIDENCE = Evidence(Standing.STANDARD, "the privacy profile of one training and its score, composed")
PRINTED_EVIDENCE = Evidence(Standing.PRINTED, "Wang et al. 2023, Theorems 1 and 2")
BOXES = (("lower", 0.75, 0.25), ("upper", 2.0, 4.0), ("inverse_temperature", 1.0, 50.0))  # white, black
# inverse temperature below which nothing beat uniform trials in the black box: docs/evidence/dp_hypo.md
BLACK_BETA = 10.0
HIDDEN_RUNS = 1.5  # trials that always run, over their expected number, where the duration is hidden
# of the score, by the best of 8 trials beside one where noise costs little: benchmarks.private_training
GAIN = 0.005


@dataclass(frozen=True)
class DpHypo(Method):
    """Private selection of the best of a hidden number of private trials (Framework 1 of Wang et al. 2023).

    Attributes:
        base: how a trial trains: a name of `private_training.union`.
        sampler: "uniform", or "gaussian_process", which pays for adaptivity.
        lower: c, for the Gaussian process; the paper's 0.75, or 1/4 in the black box.
        upper: C, for the Gaussian process; the paper's 2, or 4 in the black box.
        stopping: law of K, with the study's `steps` as its mean; or "one": a single training, at the candidate
            that weighs most in `prior`, or without one is nearest to the settings that the base documents.
        shape: η; 1 for a pure base and 2 for the others.
        exploration: τ.
        projection: of the Gaussian process's densities onto the bounds: the nearest in "euclidean" distance, or in
            Kullback-Leibler "divergence" (Appendix C.1). The price is the same.
        inverse_temperature: β; the paper's 1, or 50 in the black box.
        score_share: share of a trial's cost that pays for its quality; 0.25, or 0.1 of a single training.
        batch_size: expected batch, where the base samples its records.
        hide_duration: always run ⌈1.5 E[K]⌉ trials, of which min(K, ⌈1.5 E[K]⌉) count.
        prior: π₀ (Appendix D): a weight for each candidate, or tables of hyperparameters and `score` from a study
            on PUBLIC data, under `public_prior`; empty for the uniform one.
        calibration: "corrected", or "published": Theorem 1 as printed, which is true and dearer.
        base_epsilon: the black box: ε of one trial, model and quality together, at the study's δ, which then stays
            as it is whatever the densities cost; None for as dear a trial as ε allows (the white box).
        people: "disjoint" under `disjoint_people`: no person has records in both sets, so that each replaced record
            pays for the training or for the quality, and both take a trial's whole cost.
    """

    wants = "a model, where the training set is sensitive too"
    gives = "the best trial: hyperparameters, model, private score"
    needs = "[public bounds and labels](docs/how_to/private_training.md); ε above 1"
    delta_range = "mostly > 0"
    trainings = "a hidden number"
    observable = "how long all trials take, which tells of their number"
    hides_evaluations = True
    trains_privately = True

    base: str = PUBLIC_TRAINING.name
    sampler: Literal["uniform", "gaussian_process"] = "uniform"
    lower: float | None = None
    upper: float | None = None
    stopping: Law = "negative_binomial"
    shape: float | None = None
    exploration: float = 0.1
    projection: Projection = "euclidean"
    inverse_temperature: float | None = None
    score_share: float | None = None
    batch_size: int = 64
    hide_duration: bool = False
    prior: tuple[Any, ...] = ()
    calibration: Calibration = "corrected"
    base_epsilon: float | None = None
    people: Literal["any", "disjoint"] = "any"
    kind: Literal["dp_hypo"] = "dp_hypo"

    def __post_init__(self) -> None:
        white = self.base_epsilon is None
        for name, in_white, in_black in BOXES:  # what is not said is what is best there: docs/evidence/dp_hypo.md
            if getattr(self, name) is None:
                object.__setattr__(self, name, in_white if white else in_black)
        fine = self.base_epsilon is None or 0.0 < self.base_epsilon < math.inf
        self.check_option("base_epsilon", "choose a positive ε", fine=fine)
        if self.calibration == "published" and (self.stopping == "poisson" or self.hide_duration):
            raise StudyInvalid(
                'method.calibration = "published" with stopping = "poisson" or hide_duration',
                cause="the paper's Theorem 1 is for an uncapped number of trials of at least one",
                remedy="leave one of them out",
            )
        c, C = self.box
        for name, fine, remedy in (
            ("lower", 0.0 < c <= 1.0, "choose c in (0, 1]; 0.75 is the paper's"),
            ("upper", 1.0 <= C < math.inf, "choose C of at least 1; 2 is the paper's"),
            ("shape", -1.0 < self.eta < 100.0, "choose η above −1: 1 is geometric, 0 logarithmic"),
            ("exploration", 0.0 <= self.exploration < math.inf, "choose τ of at least 0; 0.1 is the paper's"),
            ("inverse_temperature", 0.0 <= self.beta < 1e6, "choose β of at least 0"),
            (
                "score_share",
                0.0 < self.share <= 1.0 and self.score_share != 1.0,
                "choose a share between 0 and 1; 0.25 is usual",
            ),
            ("score_share", self.people == "any" or self.score_share is None, "leave it out: people are disjoint"),
            ("batch_size", self.batch_size >= 1, "choose at least 1 record"),
        ):
            self.check_option(name, remedy, fine=fine)

    @property
    def pure(self) -> bool:
        """Whether the selection is ε-DP with δ = 0: True for a pure base and K not Poisson."""
        return base_named(self.base).pure and self.stopping != "poisson"

    @property
    def trains_once(self) -> bool:
        """Whether the method trains one model alone, with nothing to choose from."""
        return self.stopping == "one"

    @property
    def share(self) -> float:
        """The share of a trial's cost for its score: 0.25, or 0.1 of one training, or as stated; 1 if disjoint."""
        if self.people == "disjoint":
            return 1.0
        usual = 0.1 if self.trains_once else 0.25
        return usual if self.score_share is None else self.score_share

    @property
    def fits_lengthscale(self) -> bool:
        """Whether lengthscale = "fit" is allowed: True for uniform trials or a single one, which have no kernel."""
        return self.sampler == "uniform" or self.trains_once

    @staticmethod
    def forms(problem: Problem) -> tuple["DpHypo", ...]:
        """Variants that train privately, first what should lose less; none if the training set is public."""
        if problem.training is None:
            return ()
        private = [base for base in BASES.values() if base.private]
        settled = [base for base in private if base.axes and any(axis.default for axis in base.axes.values())]
        one = tuple(DpHypo(base=base.name, stopping="one") for base in settled)
        several = tuple(DpHypo(base=base.name) for base in private)
        if len(problem.candidates) > 1:
            with suppress(StudyInvalid):
                alone, each = (
                    training_loss(form._calibrated(problem)[0], problem) for form in (one[0], several[0])
                )
                if each - alone <= GAIN:
                    return (*several, *one)
        return (*one, *several)

    def n_steps(self, problem: Problem) -> int:  # noqa: ARG002  K is inside
        """The number of steps, always 1: that step holds all trials, so that nothing shows how many there were."""
        return 1

    def guarantee(self, problem: Problem) -> PrivacyGuarantee:
        """(ε, δ) of the whole selection among trials, pure where all of it is; in the black box its own price."""
        ((spend, _),) = self.draws(problem)  # refuses a base that does not fit the study
        if self.base_epsilon is not None:
            problem = replace(problem, epsilon=spend.epsilon)
        base, adaptive = base_named(self.base), self.sampler == "gaussian_process"
        evidence = ADAPTIVE_EVIDENCE if adaptive else SELECTION_EVIDENCE
        if self.calibration == "published":
            evidence = PRINTED_EVIDENCE
        if self.trains_once:  # nothing is selected
            evidence = ONE_EVIDENCE
        return guarantee_of(
            problem,
            delta=0.0 if self.pure else problem.delta,
            evidence=evidence,
            scope=Scope.PRIVATE_TRAINING if base.private else Scope.MEANS,
            assumptions=assumed_of(self.options),
        )

    def draws(self, problem: Problem) -> Draws:
        """Return the plan's one noise draw with its mechanism: the whole selection among trials."""
        _, mechanism = self._calibrated(problem)
        return ((mechanism.spend("best trial"), mechanism),)

    @staticmethod
    def certificate_rules(release: Release) -> CertificateRules:
        """What a certificate must state: one draw, the best trial, priced by theorems, not by a noise scale."""
        options = release.facts["options"]
        if ":" in options["base"]:  # a trainer of somebody's own
            return own_trainer_rules(release)
        base_named(options["base"])
        if any(spend.noise_scale == 0.0 for spend in release.spends):
            raise ValueError("noise_scale")
        units = (PrivacyUnit.TRAINING_RECORD, *RECORD_UNITS)
        return CertificateRules({"best trial": tuple(RepeatAndSelect.WORTH)}, 0.0, assumed_of(options), units)

    def outlook(self, problem: Problem) -> Outlook:
        """The expected error: noise of the best of K qualities, of the training, and candidates never tried."""
        trial, mechanism = self._calibrated(problem)
        scale, mean = trial.score.scale * problem.score_per_step, mechanism.stopping.expected
        # the best of K noisy qualities is too good by about b(1 + log K); a random K sees the top 1/(K+1)
        error = scale * (1.0 + math.log(mean))
        error += problem.score_range * (training_loss(trial, problem) if self.trains_once else 1.0 / (mean + 1.0))
        return Outlook(scale, min(problem.score_range, error), round(mean), self._why(problem, trial))

    def start(self, problem: Problem, plan: PrivacyPlan) -> "HypoSearch":
        """Return a search that has scored and drawn nothing yet."""
        trial, _ = calibrated = self._calibrated(problem)
        rehearse_draws([(trial.score.spend("quality"), trial.score)])  # each trial draws it again
        prior = informed(self.prior, problem)
        only = self._only(problem, prior) if self.trains_once else None
        sampler = partial(self._sampler, problem, trial, prior)
        return HypoSearch(self, problem, plan, calibrated=calibrated, prior=prior, sampler=sampler, only=only)

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and largest ratio (c, C) of a trial's density to the prior; (1, 1) if nothing adapts."""
        return self.box if self.sampler == "gaussian_process" and not self.trains_once else (1.0, 1.0)

    @property
    def box(self) -> tuple[float, float]:
        """The bounds c and C on adaptive densities: where unstated (0.75, 2), or (0.25, 4) in the black box."""
        return cast("float", self.lower), cast("float", self.upper)  # stated, or filled in

    @property
    def eta(self) -> float:
        """The shape η of the number of trials; where unstated 1 for a pure base and 2 for the others."""
        pure = self.base not in BASES or BASES[self.base].pure  # an unknown base is refused by name elsewhere
        return (1.0 if pure else 2.0) if self.shape is None else self.shape

    @property
    def beta(self) -> float:
        """The inverse temperature β of the density by scores; where unstated 1, or 50 with `base_epsilon`."""
        return cast("float", self.inverse_temperature)

    def trials(self, problem: Problem) -> Stopping:
        """The law of the number of trials K: always 1 if `stopping` is "one", else of mean `search.steps`."""
        return law_of(self.stopping, self.eta, problem.search.n_steps)

    def _calibrated(
        self, problem: Problem, bounds: tuple[float, float] | None = None
    ) -> tuple[Trial, RepeatAndSelect]:
        """The least noisy trial that (ε, δ) pays for, else refused, and its selection; at `bounds` if given."""
        refuse_persons(problem, self.kind, "its price is proved for neighbours of equally many records alone")
        check_base(base_named(self.base), problem)
        if self.people == "disjoint" and (problem.training is None or problem.training.scored):
            raise StudyInvalid(
                'method.people = "disjoint" without two sensitive sets',
                cause="models are trained in public, or scored on the records that they are trained on",
                remedy="give training and validation of different people, or leave people out",
            )
        if self.trains_once:
            self._only(problem, informed(self.prior, problem))
        law, (lower, upper) = self.trials(problem), bounds or self.bounds
        epsilon_units = allowed_units(problem.epsilon)
        delta_units = 0 if self.pure else allowed_units(problem.delta)
        if not self.pure and problem.training is None:
            raise StudyInvalid(
                "a Poisson number of trials needs δ; a cap on validation records keeps none",
                cause="such a release is only (ε, δ), and only guarantees about training records may be",
                remedy="leave stopping out",
            )
        if not self.pure and delta_units == 0:
            pure = next(base.name for base in BASES.values() if base.private and base.pure)
            raise StudyInvalid(
                f"dp_hypo with {self.base} needs delta above 0",
                cause="Gaussian noise and a Poisson number of trials have no pure ε",
                remedy=f"set delta = 1e-6 in [privacy], or use {pure} with a negative binomial",
            )
        hidden = self.hide_duration and not self.trains_once
        cap = math.ceil(HIDDEN_RUNS * problem.search.n_steps) if hidden else None
        terms = Terms(
            self.base,
            law if cap is None else CappedCount(law, cap),
            lower,
            upper,
            from_units(epsilon_units),
            from_units(delta_units),
            self.share,
            self.batch_size,
            self.calibration,
            self.base_epsilon,
        )
        trial = calibrate(problem, terms)
        if trial is None:
            raise self._too_dear(problem, lower, upper)
        check_every_point(trial, problem)
        mechanism = RepeatAndSelect(
            law,
            lower,
            upper,
            trial.costs,
            epsilon_units,
            delta_units,
            cap,
            sensitivity=problem.record_steps * problem.score_per_step,
            noise_scale=trial.score.scale * problem.score_per_step,
            calibration=self.calibration,
        )
        if self.base_epsilon is not None:  # a trial costs what it costs, and so does the best of them
            priced = min(epsilon_units, spent_units(mechanism.price()))
            mechanism = replace(mechanism, epsilon_units=priced)
        return trial, mechanism

    def _only(self, problem: Problem, prior: NDArray[np.float64]) -> int:
        return int(prior.argmax()) if self.prior else base_named(self.base).nearest_to_defaults(problem)

    def _sampler(self, problem: Problem, trial: Trial, prior: NDArray[np.float64]) -> Sampler:
        G = problem.score_range
        lower, upper = self.bounds
        if lower == 1.0 or upper == 1.0:  # the only density in the box is the prior
            return UniformSampler(prior)
        deviation = min(1.0, trial.score.scale / problem.range_steps)
        kernel = stated_kernel(problem, SPREAD**2)  # of qualities as shares of their range
        return GaussianProcessSampler(
            Posterior(problem.candidates.encoded, kernel, max(deviation**2, 1e-8), CENTRE),
            prior=prior,
            bounds=self.bounds,
            exploration=self.exploration,
            projection=self.projection,
            inverse_temperature=self.beta * G,  # β is stated per unit of the quality
        )

    def _too_dear(self, problem: Problem, lower: float, upper: float) -> StudyInvalid:
        if self.base_epsilon is not None:
            return StudyInvalid(
                f"ε = {problem.epsilon:g} does not pay for the best of so many trials of ε = {self.base_epsilon:g}",
                cause="in the black box a trial costs what it costs, and a selection multiplies it",
                remedy="raise epsilon, lower base_epsilon, or bring upper and lower closer to 1",
            )
        if upper == lower:
            return too_small(problem)
        least = pure_selection_epsilon(0.0, self.trials(problem), lower, upper)
        return StudyInvalid(
            f"ε = {problem.epsilon:g} does not pay for densities between {lower:g} and {upper:g} of the prior",
            cause=f"adaptivity alone costs up to {least:.3g}",
            remedy='use sampler = "uniform", bring upper and lower closer to 1, or raise epsilon',
        )

    def _why(self, problem: Problem, trial: Trial) -> str:
        law, mean = self.trials(problem), problem.search.n_steps
        if self.trains_once:
            point = problem.candidates.points[self._only(problem, informed(self.prior, problem))]
            settings = ", ".join(f"{name} = {value:g}" for name, value in point.items())
            return f"one training, at {settings}, with all but its score's share; {trial.described}"
        text = f"the best of a hidden random number of trials, {mean} on average; {trial.described} a trial"
        try:
            other, _ = self._calibrated(problem, (1.0, 1.0) if self.bounds != (1.0, 1.0) else self.box)
            compared = other.described
        except StudyInvalid:
            compared = "nothing left"
        c, C = self.box
        wide = f"c = {c:g}, C = {C:g}"
        if self.bounds == (1.0, 1.0):
            text += f" (with adaptive densities, {wide}, {compared})"
        else:
            text += f" with {wide} (uniform: {compared})"
            if isinstance(law, NegativeBinomialStopping):
                published = selection_epsilon(
                    law,
                    trial.costs,
                    lower=c,
                    upper=C,
                    delta=0.0 if self.pure else problem.delta,
                    calibration="published",
                )
                text += f"; as published the same trials would cost ε = {published:.3g}"
            if self.base_epsilon is None:
                text += (
                    "; on one stand-in, digits, where adaptive densities cost 1.09 to 1.10 times the noise, "
                    "uniform trials did as well at the same ε, or better"
                )
            elif self.beta < BLACK_BETA:
                text += (
                    f"; below β = {BLACK_BETA:g} a density hardly leaves the prior, and uniform trials cost less"
                )
        return text
