"""What a search with a trainer supplied by the user shows: its plan beforehand, and its release."""

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import fill
from typing import Any

from dpbo.features.private_training.trial_families import Declared
from dpbo.features.private_training.trial_price import TrialPrice
from dpbo_core.errors import DpboError
from dpbo_core.privacy.guarantee import CALLER_ASSUMPTIONS, NeighboringRelation, PrivacyGuarantee
from dpbo_core.privacy.release import Release

MAX_SHOWN_TRAININGS = 4  # different trainings that a plan lists


@dataclass(frozen=True)
class TrialsPlan:
    """The price of a search; its text is a screen."""

    study: str
    edition: str
    dataset: str
    price: TrialPrice  # solved
    assumptions: tuple[str, ...]  # the names of what the guarantee rests on

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON."""
        terms = self.price.terms
        return {
            "study": self.study,
            "epsilon": terms.epsilon,
            "delta": 0.0 if terms.pure else terms.delta,
            "neighbours": terms.neighbours,
            "trainings": terms.run,
            "noise": list(map(terms.family.handed, self.price.noises)),
            "score_noise": self.price.score_noise,
            "one_training": None if isinstance(terms.family, Declared) else self.price.level,
            "grid": self.price.grid_epsilon,
            "assumptions": list(self.assumptions),
        }

    def __str__(self) -> str:
        terms, family = self.price.terms, self.price.terms.family
        relation = NeighboringRelation(terms.neighbours).replace("_", " ").removesuffix(" one")
        delta = "" if terms.pure else f", δ = {terms.delta:g}"
        different = dict(zip(terms.keys, zip(self.price.noises, terms.points, strict=True), strict=True))
        noises = [family.described(noise, point, terms.n_training) for noise, point in different.values()]
        more = f"; and {len(noises) - MAX_SHOWN_TRAININGS} more" if len(noises) > MAX_SHOWN_TRAININGS else ""
        noise = f"±{self.price.score_noise:.2g}" if self.price.score_noise else "exact:"
        records = "public records" if terms.public_validation else "records"
        lines = [
            f"{self.study} · edition {self.edition} · dataset {self.dataset} · {relation} one record",
            "No sensitive record was read and nothing was charged.",
            f"  price    ε = {terms.epsilon:g}{delta} for the whole search; {terms.run} trainings always run",
            *fill(
                f"  noise    {'; '.join(noises[:MAX_SHOWN_TRAININGS])}{more}", 79, subsequent_indent=" " * 11
            ).splitlines(),
            f"  score    {noise} on a share of {terms.n_validation} {records}",
        ]
        if not isinstance(family, Declared):
            lines.append(f"  each     one training alone costs ε = {self.price.level:.3g}{delta}")
        if self.price.grid_epsilon is not None:
            lines.append(
                f"  never    all {len(terms.points)} candidates at ε = {terms.epsilon:g} each: "
                f"in fact ε = {self.price.grid_epsilon:.3g}, with public scores"
            )
        lines += [
            "  or       one training at settings you trust, with all of ε (run = 1): better",
            "           if they rank in the best quarter of the space; at ε = 1, two fifths",
            *(
                fill(f"  yours    {name}: {CALLER_ASSUMPTIONS[name].statement}", 79, subsequent_indent=" " * 11)
                for name in self.assumptions
            ),
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class TrialsRelease:
    """What a search released; its text is a screen."""

    release: Release  # as the ledger recorded it
    folder: Path  # where the model is
    replayed: bool  # whether it had been released before, so that nothing was spent now

    @property
    def params(self) -> dict[str, Any]:
        """The hyperparameters that were released, by name."""
        return dict(self.release.value["hyperparameters"])

    @property
    def score(self) -> float:
        """The released score, with its noise; it may lie outside [0, 1]."""
        return float(self.release.value["score"])

    @property
    def interval(self) -> tuple[float, float]:
        """About the 90% interval of the score on other people, of a model that was chosen for it."""
        low, high = self.release.value["interval"]
        return float(low), float(high)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """The guarantee of the whole search."""
        return self.release.guarantee

    @property
    def model_file(self) -> Path | None:
        """The file of the released model, as cloudpickle wrote it; None if every training failed."""
        model = self.release.value["model"]
        return None if model is None else self.folder / f"{model['sha256']}.pkl"

    @cached_property
    def model(self) -> Any:
        """The released model, loaded by cloudpickle, which runs its class's code; None if every training failed.

        Raises:
            DpboError: its file is not here, or is not the released one.
        """
        import hashlib
        import pickle

        file = self.model_file
        if file is None:
            return None
        content = file.read_bytes() if file.exists() else b""
        if hashlib.sha256(content).hexdigest() != self.release.value["model"]["sha256"]:
            raise DpboError(
                "the released model is not here",
                cause="it was released on another machine, or its file was changed",
                remedy="copy the file from there; training again spends budget again",
            )
        return pickle.loads(content)  # noqa: S301  whose digest the ledger has

    @property
    def checked(self) -> str:
        """What was compared in every training, as text."""
        n, training = self.release.facts["trainings"], self.release.facts["training"]
        reported = f"the training reported {training}, as priced; " if self.release.facts["reported"] else ""
        return f"{reported}{n} different seeds"

    def __str__(self) -> str:
        low, high = self.interval
        name, file = str(self.release.facts["score"]), self.model_file
        exact = self.release.spends[0].noise_scale == 0.0
        of_score = "the score is exact, of public records" if exact else "of the score: the operating system's"
        place = "none: every training that counts failed"
        if file is not None:
            place = f"{os.path.relpath(file.parent)}/ ({file.stat().st_size if file.exists() else 0:,} bytes)"
        lines = [
            f"{self.release.study} · edition {self.release.edition} · {self.release.method}",
            *(f"  {axis:<14} {json.dumps(value)}" for axis, value in self.params.items()),
            f"  {name:<14} {self.score:.3f}   chosen for it: expect {low:.2f} to {high:.2f} on other people",
            *_row("guarantee", self.guarantee.in_words()),
            *_row("checked", self.checked),
            f"  you state      {', '.join(self.guarantee.assumptions)}",
            *_row("noise", f"of the training: its own generator's; {of_score}"),
            f"  model          {place}",
        ]
        return "\n".join(lines)


def _row(name: str, text: str) -> list[str]:
    return fill(f"  {name:<14} {text}", 79, subsequent_indent=" " * 17).splitlines()
