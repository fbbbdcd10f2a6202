"""A search with a trainer of the user's own, as it runs: all n trainings, the vault, and the release of the best
alone.

    charge the whole price · draw K, candidates and seeds into the vault · n times: train, score, add noise, seal
    compare what trainings reported · choose the best of the first K · record it · publish its model

n trainings always run, so that their number, what they leave and how long they take say nothing of K. A killed
search goes on with the same draw. A training that fails or is late scores worst, and counts.
"""

import hashlib
import math
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dpbo.features.private_training.trial_child import UNSEEDED_TORCH
from dpbo.features.private_training.trial_price import BestTrial, TrialPrice
from dpbo.features.private_training.trial_process import Confinement
from dpbo.features.private_training.trial_vault import FinishedTrial, TrialDraw, TrialVault
from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.noise import NoiseSource, rehearse_draws
from dpbo_core.mechanisms.random_stopping import draw_index
from dpbo_core.models.integer_sums import GRID
from dpbo_core.privacy.atomically import locked_folder, replace_atomically
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sensitive import Sensitive, messages, sealed
from dpbo_core.study.query import PrivateQuery, QueryContext, charged

BEST = "best trial"
SEED_BITS = 64
REHEARSED_SEED = 2**63 + 0x5EED
_TOLERANCE = 1e-6  # relative, of a reported number


@dataclass(frozen=True, eq=False, repr=False)
class TrialJobs:
    """What the processes of a search are handed: code, SENSITIVE records as pickles, and their confinement."""

    price: TrialPrice
    train: bytes  # the pickled training function, or its import path
    score: bytes  # the pickled score of one record, or its import path
    training: Sensitive[bytes]  # the pickled training records
    validation: Sensitive[bytes]  # the pickled validation records
    confinement: Confinement

    def trained(self, candidate: int, seed: int, folder: Path) -> tuple[dict[str, Any], bytes] | None:
        """Train one model at a candidate: what the trial reported and the pickled model; None if it failed."""
        family, noise = self.price.terms.family, self.price.noises[candidate]
        job = {
            "what": "train",
            "seed": seed,
            "variable": family.variable,
            "value": family.handed(noise) if family.variable else 0.0,
            "train": self.train,
            "params": dict(self.price.terms.points[candidate]),
            "data": self.training.expose(),
        }
        return self.confinement.run(job, folder)

    def scored(self, model: bytes, place: Path) -> tuple[dict[str, Any], bytes] | None:
        """Score each validation record: its score in whole steps, as bytes; None if the process failed."""
        n = self.price.terms.n_validation
        job = {"what": "score", "score": self.score, "model": model, "n_records": n}
        job |= {"timeout": self.confinement.timeout, "data": self.validation.expose()}
        patient = replace(self.confinement, timeout=None)  # a late record ends no other's score
        with TemporaryDirectory(prefix="score-", dir=place) as folder:
            return patient.run(job, Path(folder))

    def expected(self, candidate: int) -> Any:
        """Return what a training at a candidate must report, if it reports anything."""
        terms = self.price.terms
        return terms.family.expected(self.price.noises[candidate], terms.points[candidate], terms.n_training)

    def tried(self, candidate: int, seed: int, folder: Path, source: NoiseSource) -> tuple[FinishedTrial, bytes]:
        """Run one trial, always in two processes: its noised score, what it reported, and its pickled model."""
        trained = self.trained(candidate, seed, folder)
        model = b"" if trained is None else trained[1]
        scored = self.scored(model, folder.parent)
        if trained is None:
            return FinishedTrial(None), b""
        steps = np.zeros(0, dtype=np.int64) if scored is None else np.frombuffer(scored[1], dtype=np.int64)
        whole = len(steps) == self.price.terms.n_validation
        quality, score, report = int(np.clip(steps, 0, GRID).sum()) if whole else 0, self.price.score, trained[0]
        if score is not None:  # or else the validation records are public
            quality = int(score.prepare(score.spend("quality"), source)(Sensitive(quality)))
        seeds = tuple(seed for seed in report["seeds"] if isinstance(seed, int))
        return FinishedTrial(quality, report["spent"], seeds, hashlib.sha256(model).hexdigest()), model


def agrees(expected: Any, reported: Any) -> bool:
    """Return whether a report of a spend is the priced one, but for rounding."""
    if isinstance(expected, list) and isinstance(reported, list):
        return len(expected) == len(reported) and all(map(agrees, expected, reported))
    if isinstance(expected, int | float) and isinstance(reported, int | float):
        return math.isclose(expected, reported, rel_tol=_TOLERANCE)
    return bool(expected == reported)


def check_reports(jobs: TrialJobs, draw: TrialDraw, trials: list[FinishedTrial]) -> None:
    """Refuse a search where a training spent something else than was priced, or set a constant random state."""
    seeds = Counter(seed for trial in trials for seed in set(trial.seeds))
    if any(times > 1 for times in seeds.values()) or UNSEEDED_TORCH in seeds:
        raise StudyInvalid(
            "the training sets a random state to a constant, so that its noise is no secret",
            cause="a call like torch.manual_seed(0), or torch imported inside the function and never seeded",
            remedy="seed with trial.seed, try it with .rehearse(), and give a new edition",
        )
    for candidate, trial in zip(draw.candidates, trials, strict=True):  # which of them, and what, is not told
        if trial.spent is not None and not agrees(jobs.expected(candidate), trial.spent):
            raise StudyInvalid(
                "a training reported a spend that differs from the priced one, so nothing is released",
                cause="another batch size, number of steps or noise than the declared one",
                remedy="compare them with .rehearse(), correct one of them, and give a new edition",
            )


@dataclass(frozen=True, eq=False)
class TrialSearch:
    """A priced search, ready to be charged and run."""

    query: PrivateQuery  # its key, price and sources
    price: TrialPrice
    # reads the SENSITIVE records, after the charge, and makes the jobs of the processes
    open_jobs: Callable[[], TrialJobs]
    facts: Mapping[str, Any]  # public facts of the release
    vault: TrialVault  # where its trials are sealed
    models: Path  # the folder that the released model is written to
    workers: int = 1  # how many trainings run at once
    progress: Callable[[int], None] = field(default=lambda _: None)

    def run(self, context: QueryContext) -> Release:
        """Charge the search, run its trainings, and record the best: its release."""
        score = self.price.score
        rehearse_draws([] if score is None else [(score.spend("quality"), score)])  # each trial draws it again
        charge = charged(self.query, context)
        mechanism, spend = BestTrial(self.price), self.query.plan.spends[0]
        with locked_folder(self.vault.folder):  # one process at a time runs its trials
            done = charge.recorded(BEST)
            if done is None:
                charge.open()
                draw, trials = sealed(partial(self._run_all, context.source), message=messages(StudyInvalid))
                procedure = partial(self._best, draw, trials)
                done = charge.draw(spend, mechanism, lambda: Sensitive(procedure))
            sealed(lambda: self._publish(done["draw"]["model"]))
            release = charge.conclude(self._release(done["draw"], charge.standing))
            self.vault.shred()
        return release

    def _run_all(self, source: NoiseSource) -> tuple[TrialDraw, list[FinishedTrial]]:
        """Run every trial that is not finished, and check what all of them reported."""
        jobs, draw = self.open_jobs(), self.vault.drawn(lambda: self._draw(source))

        def one(number: int) -> None:
            if self.vault.finished(number) is None:
                candidate, seed = draw.candidates[number], draw.seeds[number]
                self.vault.seal(number, *jobs.tried(candidate, seed, self.vault.new_folder(number), source))
            self.progress(number + 1)

        numbers = range(len(draw.candidates))
        if self.workers == 1:
            for number in numbers:
                one(number)
        else:
            pool = ThreadPoolExecutor(self.workers)
            try:
                list(pool.map(one, numbers))
            finally:
                pool.shutdown(cancel_futures=True)
        trials = [trial for number in numbers if (trial := self.vault.finished(number))]
        check_reports(jobs, draw, trials)
        return draw, trials

    def _draw(self, source: NoiseSource) -> TrialDraw:
        terms = self.price.terms
        alike = [1] * len(terms.points)
        return TrialDraw(
            terms.draw_count(source),
            tuple(draw_index(alike, source) for _ in range(terms.run)),
            tuple(secrets.randbits(SEED_BITS) for _ in range(terms.run)),
        )

    def _best(self, draw: TrialDraw, trials: list[FinishedTrial], _: NoiseSource) -> dict[str, Any]:
        """The best of the trials that count, the earliest of equals; a fixed default if all of them failed."""
        counted = [
            (trial.quality, i) for i, trial in enumerate(trials[: draw.counted]) if trial.quality is not None
        ]
        if not counted:
            return {"candidate": 0, "quality": 0, "model": "", "reported": False}
        most = max(quality for quality, _ in counted)
        winner = next(i for quality, i in counted if quality == most)
        trial = trials[winner]
        return {
            "candidate": draw.candidates[winner],
            "quality": most,
            "model": trial.model,
            "reported": trial.spent is not None,
        }

    def _publish(self, digest: str) -> None:
        """Write the recorded winner's model out of the vault, unless an earlier run did."""
        file = self.models / f"{digest}.pkl"
        if not digest or file.exists():
            return
        trials = range(self.price.terms.run)
        winner = next(i for i in trials if (trial := self.vault.finished(i)) and trial.model == digest)
        self.models.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_atomically(file, self.vault.model(winner))

    def _release(self, done: Mapping[str, Any], standing: str) -> Release:
        terms = self.price.terms
        candidate = done["candidate"]
        value = done["quality"] * self.price.score_unit
        released: dict[str, Any] = {
            "hyperparameters": dict(terms.points[candidate]),
            "score": value,
            "interval": list(elsewhere(value, self.price.score_noise, terms.n_validation, terms.run)),
            "model": {"sha256": done["model"], "format": "cloudpickle"} if done["model"] else None,
        }
        training = terms.family.described(self.price.noises[candidate], terms.points[candidate], terms.n_training)
        facts = {**self.facts, "training": training, "reported": done["reported"]}
        return self.query.release(released, standing, facts)


def elsewhere(value: float, noise: float, n: int, run: int) -> tuple[float, float]:
    """Return about the 90% interval of the score on other people, of a model that was chosen for it.

    Normal ends of noise and sampling together; the lower one allows for the best of `run` trainings being chosen.
    """
    from scipy.stats import norm

    inside = min(max(value, 0.0), 1.0)
    deviation = math.sqrt(noise**2 + max(inside * (1.0 - inside), 1.0 / n) / n)
    low, high = (float(norm.isf(tail)) for tail in (0.05 / run, 0.05))
    return max(0.0, inside - low * deviation), min(1.0, inside + high * deviation)
