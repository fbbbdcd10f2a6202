"""Record and replay of `dp_hypo` whole: both files of a study in neighbouring forms, every draw's output frozen.

The trials, their candidates, their draws and the release must be the same, and at each draw the query may have
moved by no more than what its noise is for: in ℓ₂ for the Gaussian, in ℓ₁ for the Laplace, in steps for the score.
"""

import io
import random
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np
import pytest
from neighbours import CELLS
from test_dp_hypo import POINTS, study
from worlds import mostly_slow

from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import InjectedNoise
from dpbo_core.mechanisms.vectors import DiscreteGaussianVector, DiscreteLaplaceVector
from dpbo_core.study import StudySpec
from dpbo_core.study.tuning import run_study

PAIRS = (4, 12)  # of each base: in the short run each kind once, and of every base in `make audit`


@dataclass
class Tape:
    """Every draw: which mechanism with which numbers, and the query it was added to (None: to none)."""

    asked: list[str] = field(default_factory=list)
    queries: list[tuple[str, float, np.ndarray]] = field(default_factory=list)
    release: object = None
    said: str = ""


class Frozen:
    """Stands for the noise of a vector: added to a query, it notes the query and gives the frozen output."""

    __array_ufunc__ = None

    def __init__(self, tape, mechanism, output):
        self.tape, self.mechanism, self.output = tape, mechanism, output

    def __radd__(self, query):
        kind = type(self.mechanism).__name__
        self.tape.queries.append((kind, self.mechanism.sensitivity, np.array(query, dtype=object)))
        return self.output

    def astype(self, kind):
        return self.output.astype(kind)


def played(tables, folder, ledger, seed):
    """One run; its outputs are functions of the seed and of how many were drawn before."""
    tape, rng, said = Tape(), np.random.default_rng(seed), io.StringIO()

    def vector(mechanism, source):
        tape.asked.append(repr(mechanism))
        return Frozen(tape, mechanism, np.rint(rng.normal(scale=mechanism.scale, size=mechanism.size)).astype(int))

    def score(mechanism, spend, source):
        tape.asked.append(repr(mechanism))

        def drawn(total):
            query = np.array([total.expose()], dtype=object)
            tape.queries.append((type(mechanism).__name__, mechanism.sensitivity, query))
            return int(rng.integers(2**20))

        return drawn

    with ExitStack() as patches, redirect_stdout(said), redirect_stderr(said):
        for cls in (DiscreteGaussianVector, DiscreteLaplaceVector):
            patches.enter_context(patch.object(cls, "draw", vector))
        for cls in (DiscreteGaussian, DiscreteLaplace):
            patches.enter_context(patch.object(cls, "prepare", score))
        source = InjectedNoise(np.random.default_rng(seed))
        result = run_study(StudySpec.from_dict(tables), ledger=ledger, folder=folder, source=source)
    tape.release, tape.said = result.release.value, said.getvalue()
    return tape


def moved(kind, one, other):
    """In the norm of the mechanism."""
    gap = [abs(int(a) - int(b)) for a, b in zip(one.ravel(), other.ravel(), strict=True)]
    return float(np.sqrt(float(sum(g * g for g in gap)))) if kind == "DiscreteGaussianVector" else float(sum(gap))


def nasty(rng):
    return ",".join(rng.choice((*CELLS, "0.5", "-1", "0", "1")) for _ in range(rng.choice((3, 3, 3, 2, 4))))


def opposite(line):
    """A well-formed record as far from this one as there is."""
    a, b, ill = line.split(",")
    return f"{-np.sign(float(a))},{-np.sign(float(b))},{ill}"


@pytest.fixture(params=mostly_slow(POINTS, "dp_sgd"))
def base(request):
    return request.param


@pytest.mark.parametrize("pairs", mostly_slow(PAIRS, PAIRS[0]))
def test_on_neighbouring_files_nothing_differs_but_the_queries(tmp_path, base, pairs):
    ledger, rng, reach = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}"), random.Random(base), 0.0
    ledger.set_budget(PrivacyBudget.without_limit("people"))
    tables = study(tmp_path, base, n=12)
    del tables["budget"]
    honest = (tmp_path / "train.csv").read_text().splitlines()
    for pair in range(pairs):
        place, name = 1 + rng.randrange(12), ("train.csv", "validation.csv")[pair % 2]
        tapes = []
        for side in "ab":
            for file in ("train.csv", "validation.csv"):
                (tmp_path / file).write_text("\n".join(honest) + "\n")
            lines = [*honest]
            if side == "b":
                lines[place] = nasty(rng) if pair % 3 else opposite(lines[place])
            (tmp_path / name).write_text("\n".join(lines) + "\n")
            tables["study"]["edition"] = f"{pair}{side}"
            tapes.append(played(tables, tmp_path, ledger, seed=pair))
        one, other = tapes
        assert one.asked == other.asked
        assert one.release == other.release
        assert (one.said, other.said) == ("", "")
        assert len(one.queries) == len(other.queries)
        for (kind, sensitivity, here), (_, _, there) in zip(one.queries, other.queries, strict=True):
            if (base, kind) == ("objective_perturbation", "DiscreteLaplaceVector"):
                continue  # its noise tilts the objective: the proof changes variables, test_private_training.py
            assert moved(kind, here, there) <= sensitivity, (base, kind)
            reach = max(reach, moved(kind, here, there) / sensitivity)
    assert reach > 0.01  # the pairs did move something
