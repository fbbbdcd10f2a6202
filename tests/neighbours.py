"""Neighbouring validation files: real CSV bytes, records as bad as can be written, and an adversary that climbs.

A world is a public training file with a study on it; a validation file is its header and its lines. Neighbours
differ in the lines of one person: k of them in the same places; or, where each person counts once, any number
anywhere.
"""

import itertools
import random
from dataclasses import dataclass, replace
from pathlib import Path

from dpbo_core.data import Preprocessing, read_table, table_of
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.data.people import read_people
from dpbo_core.models.estimator_trainer import EstimatorTrainer
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.linear.fit import LinearTrainer
from dpbo_core.models.scores.union import SCORES
from dpbo_core.models.scoring.in_memory import Objective
from dpbo_core.models.scoring.persons import PersonObjective, Persons
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.study import StudySpec
from dpbo_core.study.named_score import margin_score, score_of
from dpbo_core.study.resolve import problem_of

CELLS = (  # what an adversary writes where a number, a colour or a class is meant
    "0", "1", "-1", "0.25", "1e308", "-1e308", "1e-320", "1e999", "-1e999", "nan", "-nan", "inf", "-inf", "", " ",
    "NULL", "red", "blue", "no such colour", "yes", "maybe", "0x10", "1_000", "1,000", '"1"', '"', "é", "\ufeff1",
    "9" * 400, "true", "-0.0",
)  # fmt: skip
LINES = (  # whole records that are none
    b"", b",", b",,,,,,", b"\xff\xfe\x00", b"\x00,\x00,\x00,\x00", b"1,2", b"1,2,red,yes,5", b'"1,2,red,yes',
    b"z" * 70_000, b"1,2,red,yes\r", b"\xef\xbb\xbf1,2,red,yes", b"1;2;red;yes",
)  # fmt: skip
HONEST = (b"0.3,-1.2,red,yes", b"-0.7,0.4,blue,no", b"1.1,0.2,green,yes", b"0.0,0.9,red,no", b"2.0,-2.0,blue,yes")


def line(cells):
    """One record, on one line whatever its cells hold."""
    return ",".join(cells).encode("utf-8", "surrogatepass").replace(b"\n", b" ")


class Kept:
    """A trainer that trains each point once in its life: training is public, and the same for every neighbour."""

    def __init__(self, trainer):
        self._trainer, self._known = trainer, {}

    @property
    def n_records(self):
        return self._trainer.n_records

    def train(self, point):
        return self._once("train", point)

    def public_score(self, point, *, seed):
        return self._once("public_score", point, seed=seed)

    def public_steps(self, point, *, seed):
        return self._once("public_steps", point, seed=seed)

    def _once(self, verb, point, **seed):
        name = verb, repr(sorted(point.items()))
        if name not in self._known:
            self._known[name] = getattr(self._trainer, verb)(point, **seed)
        return self._known[name]


@dataclass(frozen=True)
class World:
    """A problem with its public half, and where its validation files are written."""

    problem: object
    fitted: Preprocessing
    folder: Path

    def objective(self, lines):
        """The sensitive half of a validation file of these lines."""
        path, score, n_persons = self.folder / "validation.csv", self.problem.score, self.problem.n_persons
        head = b"a,b,colour,y\n" if n_persons is None else b"who,a,b,colour,y\n"
        path.write_bytes(head + b"".join(record + b"\n" for record in lines))
        table = read_table(path, mode=SENSITIVE_FILE, display_name="validation.csv")
        assert table.n_records == len(lines)
        if n_persons is None:
            assert len(lines) == self.problem.n_validation
            return Objective(Sensitive(self.fitted.transform(table)), score)
        persons = Persons.of(read_people(path, "who", display_name="validation.csv"))
        records = Sensitive(self.fitted.transform(table.without(["who"])))
        return PersonObjective(records, Sensitive(persons), score, n_persons)

    @property
    def sizes(self):
        """(m, k): the lines an adversary writes, and how many of them are one person's."""
        return self.problem.n_validation or 5, self.problem.max_records_per_person

    def lines(self, own, others):
        """A file in which `own` are one person's; the others are as many persons' as there are pairs of them."""
        if self.problem.n_persons is None:
            return [*own, *others]
        return [*(b"x," + record for record in own), *(b"p%d," % (i // 2) + r for i, r in enumerate(others))]

    def pairs(self, rng):
        """Neighbours for ever: the same honest or nasty lines but for one person's, who may have other numbers."""
        if self.problem.n_persons is None:
            yield from nasty_pairs(*self.sizes, rng)
        while True:
            others = random_lines(rng, 4)
            pair = [self.lines(random_lines(rng, rng.randrange(6)), others) for _ in range(2)]
            for side in pair:
                rng.shuffle(side)
            yield tuple(pair)


def make_world(
    folder, *, estimator="logistic", score="sigmoid", m=5, k=1, n_persons=None, steps=4, points=6, keys=None
):
    """A small study on public rows of two numbers and a colour.

    Args:
        keys: of [model] beside these two.
    """
    regression = SCORES[score].regression
    rng = random.Random(7)
    a, b = ([rng.gauss(0, 1) for _ in range(60)] for _ in range(2))
    colours = [rng.choice(("red", "blue", "green")) for _ in a]
    labels = ["yes" if x - y + (c == "red") > 0 else "no" for x, y, c in zip(a, b, colours, strict=True)]
    numbers = [x - y + rng.gauss(0, 1) for x, y in zip(a, b, strict=True)] if regression else labels
    public = table_of({"a": a, "b": b, "colour": colours, "y": numbers})
    linear = "." not in estimator
    axis = {"low": 1e-2, "high": 1.0, "log": True, "points": points} if linear else {"values": [1, 2, 3]}
    tables = {
        "study": {"name": "replay", "method": "private_grid"},
        "privacy": {"dataset": "people", "epsilon": 1.0, "delta": 1e-6, "max_records_per_person": k},
        "data": {"training": "t.csv", "validation": "v.csv", "n_validation": m, "target": "y"},
        "model": {"estimator": estimator, "score": score} | (keys or {}),
        "space": {"lambda" if linear else "max_depth": axis},
        "search": {"steps": steps},
    }
    if n_persons is not None:
        del tables["data"]["n_validation"]
        tables["data"]["n_persons"] = n_persons
        tables["privacy"]["person"] = "who"
    spec = StudySpec.from_dict(tables)
    fitted = Preprocessing.fit(public, "y", unit_ball=linear, regression=regression)
    encoded = fitted.transform(public)
    trainer = (
        LinearTrainer.of(encoded.X, encoded.labels, estimator, score=margin_score(spec.model), tolerance=None)
        if linear
        else EstimatorTrainer(
            encoded.X, encoded.truth, EstimatorFactory(estimator, {}, 0, regression), score_of(spec.model)
        )
    )
    n_validation = m if n_persons is None else None
    problem = replace(problem_of(spec, n_validation=n_validation), trainer=Kept(trainer))
    return World(problem, fitted, folder)


def climb(reach, world, rng, *, rounds):
    """A greedy adversary: changes one cell of one of the two worlds at a time, and keeps what moves a query more.

    Args:
        reach: from two lists of lines to the share of the declared sensitivity that was used.
        world: whose files they are.
        rounds: changes tried; each is one replayed pair.

    Returns:
        The largest share reached, with the pair that reached it.
    """
    m, k = world.sizes
    others = [rng.choice(HONEST) for _ in range(m - k)]
    here, there = ([["1", "-1", "red", "yes"] for _ in range(k)] for _ in range(2))

    def pair(here, there):
        return world.lines(map(line, here), others), world.lines(map(line, there), others)

    best = reach(*pair(here, there))
    for _ in range(rounds):
        trial = [[[*cells] for cells in side] for side in (here, there)]
        cells = rng.choice(trial[rng.randrange(2)])
        for place in rng.sample(range(4), rng.choice((1, 1, 2))):
            cells[place] = rng.choice(("yes", "no") if place == 3 and rng.random() < 0.5 else CELLS)
        found = reach(*pair(*trial))
        if found >= best:
            best, (here, there) = found, trial
    return best, pair(here, there)


def random_lines(rng, m):
    """A validation file of anything."""
    kinds = (lambda: rng.choice(HONEST), lambda: _honest(rng), lambda: rng.choice(LINES), lambda: _cells(rng))
    return [rng.choices(kinds, (2, 3, 1, 2))[0]() for _ in range(m)]


def _honest(rng):
    return line(
        [f"{rng.gauss(0, 1):.3f}", f"{rng.gauss(0, 1):.3f}", rng.choice(("red", "blue")), rng.choice(("yes", "no"))]
    )


def _cells(rng):
    cells = [rng.choice(CELLS), rng.choice(CELLS), rng.choice(("red", *CELLS)), rng.choice(("yes", "no", *CELLS))]
    return line(cells)


def nasty_pairs(m, k, rng):
    """Neighbours for ever: the same honest or nasty lines but for k of them."""
    for _ in itertools.count():
        one = random_lines(rng, m)
        other, places = [*one], rng.sample(range(m), k)
        for place in places:
            other[place] = random_lines(rng, 1)[0]
        yield one, other
