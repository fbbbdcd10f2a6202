"""`PrivateTrials`: the best of a hidden number of private trainings, by anybody's own trainer."""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dpbo.features.private_training import trial_child
from dpbo.features.private_training.dp_hypo import DpHypo
from dpbo.features.private_training.trial_families import Declared, Family
from dpbo.features.private_training.trial_plan import TrialsPlan, TrialsRelease
from dpbo.features.private_training.trial_price import BestTrial, TrialPrice, TrialTerms
from dpbo.features.private_training.trial_process import Confinement, namespaces_available, stores_to_hide
from dpbo.features.private_training.trial_search import BEST, REHEARSED_SEED, TrialJobs, TrialSearch, agrees
from dpbo.features.private_training.trial_vault import TrialVault
from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.address import STATE_FOLDER, ledger_url, state_folder
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import MEMORY_SOURCE, Source, file_source
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.scores.union import OF_CLASSES
from dpbo_core.privacy.guarantee import (
    CONTAINED_ELSEWHERE,
    DECLARED_COST,
    DISJOINT_PEOPLE,
    PUBLIC_VALIDATION,
    Evidence,
    NeighboringRelation,
    PrivacyGuarantee,
    PrivacyUnit,
    Standing,
)
from dpbo_core.privacy.release import PrivacyPlan
from dpbo_core.privacy.sensitive import Sensitive, without_frames
from dpbo_core.search.search_space import CandidateSet, Categorical, SearchSpace, grid, sobol
from dpbo_core.sklearn_api.arguments import axes_of, conditional
from dpbo_core.study.preconditions import check_accepted
from dpbo_core.study.query import PrivateQuery, QueryContext, fingerprint_of, replay

KIND = DpHypo.kind
EVIDENCE = Evidence(
    Standing.CORRECTED,
    "Papernot and Steinke 2022 (a hidden number of trials, every one alike), priced by privacy profiles",
)
RELATIONS = ("replace_one", "add_or_remove", "zero_out")
SOCKETS = Path("/run")  # of the system's services, which a network namespace does not close
MOST_COSTS = 24  # different trainings of one search: each takes seconds to solve
MAX_TRIALS = 10_000
SPLIT_SEED = 0  # of the rows that dpbo divides: a public rule of their positions
CONSTANT_SEEDS = 2**16  # a random state below it in a rehearsal is taken for a constant


@dataclass(eq=False, repr=False)
class PrivateTrials:
    """Train `run` models with a private trainer of your own, and release the best of a hidden number of them.

    `train(params, data, trial)` returns a model. It runs in a process of its own, draws its noise from what `trial`
    hands it, and is told no score and no other trial. What `training` declares of its cost is accepted as you state
    it (`declared_cost`) and compared with what the training reports to `trial.spent`.

    Args:
        train: the function, or its import path "package.module:name".
        space: name → `Real`, `Integer`, `Categorical` or a list of values.
        epsilon: ε of the WHOLE search, its scores included.
        delta: δ of the same; not spent where every training is pure.
        neighbours: "replace_one", "add_or_remove" or "zero_out": what the ε of Opacus and JAX-Privacy means are the
            second and the third. Numbers of records are then public.
        dataset: the budget's name. Data that share people share a name.
        budget: (ε, δ) of the data set's cap, set at its first use; without any cap the ledger refuses.
        training: `DpSgd`, `PureDp`, `Zcdp`, `Event` or `Declared`: what one training costs.
        score: "accuracy", by the model's `predict`; or a function score(model, data) of one record's data, or its
            import path: one number in [0, 1]. It is handed one record at a time.
        trials: the expected number of trainings that count, before `run` cuts it.
        run: the number of trainings that always run; 1.5 times `trials` where None.
        people: "disjoint" under the assumption `disjoint_people`: nobody is in both sets. Of one table that dpbo
            divides it is known.
        public_validation: under the assumption of this name the validation records are public: scores are exact
            and cost nothing, and the guarantee is for the training records alone.
        workers: how many trainings run at once.
        timeout: seconds after which a training is ended and scores worst; and likewise the score of one record, for
            which None means 60.
        accepts: assumptions that you answer for, by name.
        ledger: the ledger's URL; where None that of the command.
        validation_share: of one table, the share of its records that models are scored on.
        n_training: number of training records where the training data are handed over unread.
        n_validation: likewise for the validation records, for a plan.
        n_candidates: points that are spread over a space that has numeric axes.
        study: the name in the ledger.
        edition: the same search asked twice gives the same release; a new edition spends budget again.
        progress: called with the number of each training that ends, 1 … `run`.

    Example:
        >>> import dpbo
        >>> from dpbo import PrivateTrials, PureDp
        >>> search = PrivateTrials(
        ...     "my_package.train:train_dp", {"lr": [0.1, 1.0]}, epsilon=3.0, delta=0.0, dataset="digits",
        ...     budget=(3.0, 0.0), training=PureDp(), score="accuracy", trials=4, accepts=("declared_cost",),
        ...     n_training=1000, n_validation=200,
        ... )
        >>> print(search.plan())  # doctest: +ELLIPSIS
        PrivateTrials · edition 1 · dataset digits · replace one record
        ...
    """

    train: str | Callable[..., Any]
    space: Mapping[str, Any] | CandidateSet
    _: KW_ONLY
    epsilon: float
    delta: float
    neighbours: str = "replace_one"
    dataset: str
    budget: tuple[float, float] | None = None
    training: Family
    score: str | Callable[..., float]
    trials: float = 10
    run: int | None = None
    people: str | None = None
    public_validation: bool = False
    workers: int = 1
    timeout: float | None = None
    accepts: tuple[str, ...] = ()
    ledger: str | None = None
    validation_share: float = 0.25
    n_training: int | None = None
    n_validation: int | None = None
    n_candidates: int = 256
    study: str = "PrivateTrials"
    edition: str = "1"
    progress: Callable[[int], None] = field(default=lambda _: None)

    def __post_init__(self) -> None:
        from dpbo_core.study.sections import BudgetSection, PrivacySection

        PrivacySection(dataset=self.dataset, epsilon=self.epsilon, delta=self.delta)
        if self.budget is not None:
            BudgetSection(epsilon=self.budget[0], delta=self.budget[1])
        for fine, what, remedy in (
            (
                self.neighbours in RELATIONS,
                f"neighbours = {self.neighbours!r}{suggestion(self.neighbours, RELATIONS)}",
                f"choose one of {', '.join(RELATIONS)}",
            ),
            (
                isinstance(self.training, Family),
                "training is no declared cost",
                "use DpSgd, PureDp, Zcdp, Event or Declared",
            ),
            (
                self.people in (None, "any", "disjoint"),
                f"people = {self.people!r}",
                'write "disjoint", or leave it out',
            ),
            (self.run is None or self.run >= 1, f"run = {self.run}", "run at least one training"),
            (
                1 < self.trials < MAX_TRIALS or (self.run == 1 and 0 < self.trials <= 1),
                f"trials = {self.trials}",
                f"expect more than 1 and fewer than {MAX_TRIALS:,}, or set run = 1",
            ),
            (self.workers >= 1, f"workers = {self.workers}", "use at least 1"),
            (
                self.timeout is None or 0 < self.timeout < math.inf,
                f"timeout = {self.timeout}",
                "give seconds above 0",
            ),
            (_is_path(self.train), f"train = {self.train!r}", 'write "package.module:function"'),
            (
                self.score == OF_CLASSES or _is_path(self.score),
                f"score = {self.score!r}",
                f'write "package.module:function", or "{OF_CLASSES}"',
            ),
            (0.0 < self.validation_share < 1.0, "validation_share is no share", "choose one between 0 and 1"),
        ):
            if not fine:
                raise StudyInvalid(what, remedy=remedy)
        self.run = -(-3 * int(self.trials) // 2) if self.run is None else self.run
        self._prices: dict[tuple[int, int, bool], TrialPrice] = {}
        self._rehearsed: tuple[int | None, int | None, bool, bool] = (None, None, self.people == "disjoint", False)

    def __repr__(self) -> str:
        return f"PrivateTrials({_named(self.train)}, dataset={self.dataset!r})"

    @without_frames
    def rehearse(self, train_data: Any, validation_data: Any = None) -> dict[str, Any]:
        """Train once on INVENTED or public records, show all that the trainer prints, and charge nothing.

        Returns:
            The mean score, and what the training reported to `trial.spent`.

        Raises:
            StudyInvalid: the training fails, with its error; or it reports a spend that differs from the priced
                one, or draws from a constant random state.
        """
        training, validation, disjoint = self._halves(train_data, validation_data)
        sizes = self._sizes_of(training, validation)
        self._rehearsed = (*sizes, disjoint, validation_data is None)
        price = self._price(*sizes, disjoint=disjoint)
        jobs = self._jobs(price, training, validation, rehearsal=True)
        with TemporaryDirectory(prefix="dpbo-rehearsal-") as folder:
            own = Path(folder, "training")
            own.mkdir()
            trained = jobs.trained(0, REHEARSED_SEED, own)
            scored = None if trained is None else jobs.scored(trained[1], Path(folder))
        if trained is None or "error" in trained[0]:
            raise StudyInvalid(
                "the training failed in the rehearsal",
                cause="it was ended, or ended its process" if trained is None else trained[0]["error"],
                remedy="correct it; in a search such a training would score worst, and nothing would say so",
            )
        report, expected = trained[0], jobs.expected(0)
        if report["spent"] is not None and not agrees(expected, report["spent"]):
            raise StudyInvalid(
                f"the training reported {report['spent']}, and {expected} was priced",
                cause="another batch size, number of steps or noise than the declared one",
                remedy="correct the training, or what `training` declares",
            )
        if any(0 <= seed < CONSTANT_SEEDS or seed == trial_child.UNSEEDED_TORCH for seed in report["seeds"]):
            raise StudyInvalid(
                "the training sets a random state to a constant, so that its noise would be no secret",
                cause="a call like torch.manual_seed(0), or torch imported inside the function and never seeded",
                remedy="seed with trial.seed, or draw from trial.rng, trial.torch_generator() or trial.jax_key()",
            )
        if scored is None or "error" in scored[0]:
            raise StudyInvalid(
                "the model could not be scored in the rehearsal",
                cause="its process ended" if scored is None else scored[0]["error"],
                remedy="correct the score, or what the training returns",
            )
        steps = np.frombuffer(scored[1], dtype=np.int64)
        return {"score": float(steps.mean()) / GRID, "spent": report["spent"]}

    def plan(self) -> TrialsPlan:
        """Return the price, the noise of the trainings and the assumptions; opens nothing and charges nothing.

        The numbers of records are `n_training` and `n_validation`, or else those of the last rehearsal.
        """
        n, m, disjoint, divided = self._rehearsed
        n, m = self.n_training or n, self.n_validation or m
        if n is None or m is None:
            raise StudyInvalid(
                "a plan needs the numbers of records",
                cause="they are public, and the noise depends on them",
                remedy="give n_training and n_validation, or call .rehearse() with as many invented records",
            )
        return self.planned(n, m, disjoint=disjoint, divided=divided)

    def planned(self, n: int, m: int, *, disjoint: bool, divided: bool) -> TrialsPlan:
        """Return the plan at n training and m validation records; the rest is as in `search`."""
        assumptions = self._assumptions(disjoint=disjoint and not divided)
        return TrialsPlan(self.study, self.edition, self.dataset, self._price(n, m, disjoint=disjoint), assumptions)

    @without_frames
    def fit(self, train_data: Any, validation_data: Any = None) -> TrialsRelease:
        """Charge the ledger, run every training, and release the best of those that count; a repeat is free.

        Args:
            train_data: SENSITIVE training records as the trainer takes them: (X, y), a table, or a folder's path
                that is handed over unread, with `n_training`.
            validation_data: SENSITIVE records to score on, (X, y) or a table. Where None dpbo divides `train_data`
                by the positions of its records, and each record pays once.

        Raises:
            StudyInvalid: something cannot be used as it is, or a training spent another amount than was priced.
            BudgetRefused: the ledger said no; nothing was charged.
            AssumptionNotAccepted: the guarantee rests on something that `accepts` does not name.
            Sealed: something failed on sensitive data; call it again, and nothing is paid twice.
        """
        training, validation, disjoint = self._halves(train_data, validation_data)
        unread = isinstance(train_data, str | Path)
        return self.search(
            QueryContext(PrivacyLedger(ledger_url(self.ledger))),
            self._sizes_of(training, validation),
            lambda: (training, validation),
            (MEMORY_SOURCE, *([file_source(train_data, "training records")] if unread else [])),
            disjoint=disjoint,
            divided=validation_data is None,
        )

    def search(
        self,
        context: QueryContext,
        sizes: tuple[int, int],
        load: Callable[[], tuple[Any, Any]],
        sources: tuple[Source, ...],
        *,
        disjoint: bool,
        divided: bool,
    ) -> TrialsRelease:
        """Charge and run the search on records that `load` reads after the charge; or return the recorded release.

        `disjoint`: nobody is in both sets, `divided`: because dpbo divided one table.
        """
        price = self._price(*sizes, disjoint=disjoint)
        key = self._key(price, divided=divided)
        models = state_folder() / "models" / key.fingerprint[:16]
        vault = TrialVault(state_folder() / "curator" / f"trials-{key.fingerprint[:16]}")
        recorded = replay(key, context)
        if recorded is not None:
            vault.shred()  # left by a kill after the release
            return TrialsRelease(recorded, models, replayed=True)
        assumptions = self._assumptions(disjoint=disjoint and not divided)
        relation = NeighboringRelation(self.neighbours)
        guarantee = PrivacyGuarantee(
            epsilon=self.epsilon,
            delta=0.0 if price.terms.pure else self.delta,
            unit=PrivacyUnit.TRAINING_RECORD,
            relation=relation,
            assumptions=assumptions,
            evidence=EVIDENCE,
        )
        mechanism = BestTrial(price)
        spend = mechanism.spend(BEST)
        plan = PrivacyPlan(guarantee, (spend,))
        check_accepted(self.accepts, plan, "")
        draws = ((spend, mechanism),)
        cap = None
        if self.budget is not None:
            epsilon, delta = self.budget
            cap = PrivacyBudget.of(
                self.dataset, epsilon=epsilon, delta=delta, relation=relation, accepts=self.accepts
            )
        query = PrivateQuery(key, plan, sources, cap, draws=draws, useless=_useless(price))
        facts = self._facts(price, assumptions)
        search = TrialSearch(
            query,
            price,
            lambda: self._jobs(price, *load(), rehearsal=False),
            facts,
            vault,
            models,
            self.workers,
            self.progress,
        )
        return TrialsRelease(search.run(context), models, replayed=False)

    def _halves(self, train_data: Any, validation_data: Any) -> tuple[Any, Any, bool]:
        """Return what is trained on, what is scored on, and whether nobody is in both."""
        tables = [data if isinstance(data, tuple) else (data,) for data in (train_data, validation_data)]
        if self.public_validation and (validation_data is None or {*map(id, tables[0])} & {*map(id, tables[1])}):
            raise StudyInvalid(
                "public_validation without validation_data of its own", remedy="give the public records too"
            )
        if validation_data is not None:
            return train_data, validation_data, self.people == "disjoint"
        if self.neighbours == "add_or_remove":
            raise StudyInvalid(
                'one table cannot be divided under neighbours = "add_or_remove"',
                cause="rows are divided by position, and an added record moves other records to the other half",
                remedy='give validation_data too, or set neighbours = "zero_out" or "replace_one"',
            )
        n = _n_records(train_data)
        m = round(self.validation_share * n)
        if not 0 < m < n:
            raise StudyInvalid(f"{n} records cannot be divided", remedy="give validation_data, or another share")
        order = np.random.default_rng(SPLIT_SEED).permutation(n)
        held_out, rest = np.sort(order[:m]), np.sort(order[m:])
        return trial_child.rows_of(train_data, rest), trial_child.rows_of(train_data, held_out), True

    def _sizes_of(self, training: Any, validation: Any) -> tuple[int, int]:
        n = self.n_training if isinstance(training, str | Path) else _n_records(training)
        if n is None:
            raise StudyInvalid("the training data are handed over unread", remedy="give n_training, their number")
        return n, _n_records(validation)

    def _candidates(self) -> CandidateSet:
        if isinstance(self.space, CandidateSet):
            return self.space
        axes = axes_of(self.space)
        conditions = {}
        for name, item in self.space.items():
            if conditional(item):
                ((parent, values),) = item[1].items()
                conditions[name] = (parent, tuple(values) if isinstance(values, list | tuple) else (values,))
        space = SearchSpace(
            {name: axis[0] if name in conditions else axis for name, axis in axes.items()}, conditions
        )
        if all(isinstance(axis, Categorical) for axis in space.axes.values()):
            return grid(space, {})
        return sobol(space, self.n_candidates, seed=SPLIT_SEED)

    def _price(self, n_training: int, n_validation: int, *, disjoint: bool) -> TrialPrice:
        """Return the solved price at these public numbers of records, worked out once."""
        sizes = (n_training, n_validation, disjoint)
        if sizes not in self._prices:
            terms = TrialTerms(
                self.training,
                tuple(dict(point) for point in self._candidates().points),
                n_training,
                n_validation,
                self.neighbours,
                self.epsilon,
                self.delta,
                float(self.trials),
                int(self.run or 1),
                disjoint,
                self.public_validation,
            )
            if len(set(terms.keys)) > MOST_COSTS and not isinstance(self.training, Declared):
                raise StudyInvalid(
                    f"the candidates have {len(set(terms.keys))} different costs, and each is solved for",
                    cause="a numeric axis decides how long a training runs",
                    remedy="list a few values for it",
                )
            self._prices[sizes] = TrialPrice.of(terms)
        return self._prices[sizes]

    def _assumptions(self, *, disjoint: bool) -> tuple[str, ...]:
        contained = () if namespaces_available() else (CONTAINED_ELSEWHERE.name,)
        if self.public_validation:
            return (DECLARED_COST.name, PUBLIC_VALIDATION.name, *contained)
        return (DECLARED_COST.name, *((DISJOINT_PEOPLE.name,) if disjoint else ()), *contained)

    def _jobs(self, price: TrialPrice, training: Any, validation: Any, *, rehearsal: bool) -> TrialJobs:
        import cloudpickle

        score = trial_child.accuracy if self.score == OF_CLASSES else self.score
        hidden = stores_to_hide((state_folder(), STATE_FOLDER.resolve(), SOCKETS), ledger_url(self.ledger))
        confinement = Confinement(hidden, namespaces_available(), self.timeout, rehearsal)
        train, scored, *records = map(cloudpickle.dumps, (self.train, score, training, validation))
        return TrialJobs(price, train, scored, Sensitive(records[0]), Sensitive(records[1]), confinement)

    def _key(self, price: TrialPrice, *, divided: bool) -> QueryKey:
        terms = price.terms
        points = hashlib.sha256(repr([sorted(point.items()) for point in terms.points]).encode()).hexdigest()
        declared = {item.name: _named(getattr(terms.family, item.name)) for item in fields(terms.family)}  # type: ignore[arg-type]
        facts = [
            *(KIND, _named(self.train), _named(self.score), type(terms.family).__name__, declared, points),
            *(self.study, self.edition, self.dataset, terms.n_training, terms.n_validation, terms.neighbours),
            *(terms.epsilon, terms.delta, terms.trials, terms.run, terms.disjoint, divided, self.validation_share),
            *((PUBLIC_VALIDATION.name,) if terms.public_validation else ()),
        ]
        return QueryKey(fingerprint_of(facts), self.dataset, self.study, self.edition, KIND)

    def _facts(self, price: TrialPrice, assumptions: tuple[str, ...]) -> dict[str, Any]:
        people = {PUBLIC_VALIDATION.name: "public validation", DISJOINT_PEOPLE.name: "disjoint"}
        stated = next((people[name] for name in assumptions if name in people), "any")
        terms = price.terms
        names = dict.fromkeys(name for point in terms.points for name in point)
        space = {name: sorted({repr(point.get(name)) for point in terms.points}) for name in names}
        return {
            "options": {"base": _named(self.train), "people": stated},
            "score": _named(self.score),
            "score_range": 1.0,
            "n_training": terms.n_training,
            "n_validation": terms.n_validation,
            "max_records_per_person": 1,
            "n_candidates": len(terms.points),
            "space": {name: values[:20] for name, values in space.items()},
            "steps": 1,
            "trials": terms.trials,
            "trainings": terms.run,
        }


def _n_records(data: Any) -> int:
    """Return the number of records of a table, of an array, or of several that belong together."""
    if isinstance(data, tuple):
        data = data[-1]
    if isinstance(data, str | Path) or not hasattr(data, "__len__"):
        raise StudyInvalid("these data have no records that dpbo could count", remedy="give (X, y), or a table")
    return len(data)


def _is_path(function: Any) -> bool:
    """Return whether this is a function, or what looks like the import path of one."""
    module, _, name = function.partition(":") if isinstance(function, str) else ("m", ":", "f")
    return bool(module and name)


def _named(value: Any) -> Any:
    """Return a function as the name of its place, any other setting as it is."""
    return f"{value.__module__}:{value.__qualname__}" if callable(value) else value


def _useless(price: TrialPrice) -> str:
    if price.score_noise < 0.1:
        return ""
    return f"this search would be useless: a score has noise of scale {price.score_noise:.2g}, of a range of 1"
