"""Every kind of private query goes one way: one line reserves, and a kill after any write changes nothing."""

import ast
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from of_features import merged, parts
from test_evaluation import files, of_files

from dpbo_core.errors import MechanismRefused
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.store import LedgerStore
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.privacy.guarantee import Evidence, NeighboringRelation, PrivacyGuarantee, PrivacyUnit, Standing
from dpbo_core.privacy.release import PrivacyPlan
from dpbo_core.report.evaluation import evaluate_study, run_and_evaluate
from dpbo_core.study import StudySpec, query
from dpbo_core.study.query import PrivateQuery, QueryContext
from dpbo_core.study.tuning import run_study

ROOT = Path(__file__).resolve().parents[2]
MOST_KILLS = 40


class Place:
    """A folder with a tuned study and what features' queries need; every edition is another query."""

    def __init__(self, folder):
        self.folder, self.url = folder, f"sqlite:///{folder / 'ledger.db'}"
        files(folder)
        self.spec = StudySpec.from_dict(of_files(budget={"epsilon": 1000.0, "delta": 1e-3}))
        run_study(self.spec, ledger=self.ledger, folder=folder)
        for prepare in parts("prepare"):
            prepare(self)

    @property
    def ledger(self):
        return PrivacyLedger(self.url)

    @property
    def run(self):
        return QueryContext(self.ledger, self.folder)

    def tuned(self, edition):
        return run_study(self.spec.replace(edition=edition), ledger=self.ledger, folder=self.folder).release

    def evaluated(self, edition):
        asked = self.spec.replace(evaluation=self.spec.evaluation.replace(edition=edition))
        return evaluate_study(asked, ledger=self.ledger, folder=self.folder).release

    def reported(self, edition):
        spec = self.spec.replace(name="both", edition=edition)
        return [one.release for one in run_and_evaluate(spec, ledger=self.ledger, folder=self.folder)]


KINDS = {  # how it is asked, what its name in the ledger ends with
    "a tune": (Place.tuned, "clinic"),
    "a tune and its report": (Place.reported, "both/evaluation"),
    "an evaluation": (Place.evaluated, "clinic/evaluation"),
    **merged("QUERIES"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("place"))


# One line reserves


def reserving(path):
    """Every place of a module that could reserve: an attribute of that name, or the name in a text."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text)) if "reserve" in text else ():
        if isinstance(node, ast.Attribute) and node.attr == "reserve":
            yield node.lineno
        if isinstance(node, ast.Constant) and node.value == "reserve":
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpbo_core.ledger"):
            yield from (node.lineno for name in node.names if name.name == "reserve")


def test_one_line_reserves():
    """Of everything that is installed, outside the ledger itself: one attribute, and no name of it in a text."""
    modules = [path for room in ("dpbo_core", "flows", "tasks", "features") for path in (ROOT / room).rglob("*.py")]
    outside = [path for path in modules if ROOT / "dpbo_core" / "ledger" not in path.parents]
    assert len(outside) > 300
    lines = [(path.relative_to(ROOT).as_posix(), line) for path in outside for line in reserving(path)]
    assert [path for path, _ in lines] == ["dpbo_core/study/query.py"]


# The guarantee covers the draws


def counts(guaranteed, *units):
    """Laplace draws of these prices, with a guarantee."""
    mechanisms = [DiscreteLaplace(1, price, 1.0) for price in units]
    draws = tuple((mechanism.spend(f"count {i}"), mechanism) for i, mechanism in enumerate(mechanisms))
    unit, relation = PrivacyUnit.VALIDATION_RECORD, NeighboringRelation.REPLACE_ONE
    guarantee = PrivacyGuarantee(guaranteed, 0.0, unit, relation, (), Evidence(Standing.STANDARD, "Laplace"))
    plan = PrivacyPlan(guarantee, tuple(spend for spend, _ in draws))
    return PrivateQuery(QueryKey(f"{len(units):064d}", "groups", "s", "1", "counts"), plan, draws=draws)


def test_draws_that_cost_more_than_the_guarantee_are_refused_before_the_charge(tmp_path):
    """The likeliest mistake of a new kind: a second draw, and the guarantee of one."""
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.set_budget(PrivacyBudget.of("groups", epsilon=10.0, delta=0.0))
    half, run = 5 * 10**11, QueryContext(ledger)
    honest = counts(1.0, half, half)
    for wrong, words in (
        (counts(0.75, half, half), r"cost \(ε, δ\) = \(1, 0\), and their plan guarantees \(0.75, 0\)"),
        (counts(1.0, half, half, 10**9), r"guarantees \(1, 0\)"),
    ):
        for first, *others in ((wrong,), (honest, wrong)):
            with pytest.raises(MechanismRefused, match=words):
                query.charged(first, run, *others)
    assert ledger.accounts("groups")[0].entries == ()
    query.charged(honest, run)
    assert len(ledger.accounts("groups")[0].entries) == 1


# Killed after every write


class Killed(BaseException):
    """The process ended: nothing is written or read any more."""


@contextmanager
def dead_after(writes, monkeypatch):
    """Everything that is durable after so many writes fails, as it would for a process that is gone; the writes."""
    done, honest_writing, honest_reading = [], LedgerStore.writing, LedgerStore.reading
    honest_replace = Path.replace

    def alive():
        if len(done) >= writes:
            raise Killed

    @contextmanager
    def writing(store):
        alive()
        with honest_writing(store) as writer:
            before = writer.last
            yield writer
            changed = writer.last != before
        if changed:
            done.append("ledger")
            alive()

    @contextmanager
    def reading(store):
        alive()
        with honest_reading(store) as connection:
            yield connection

    def put(path, target):
        alive()
        honest_replace(path, target)
        if "ledger" not in str(target):  # what the ledger keeps beside itself is part of its own write
            done.append("file")
            alive()

    with monkeypatch.context() as patched:
        patched.setattr(LedgerStore, "writing", writing)
        patched.setattr(LedgerStore, "reading", reading)
        patched.setattr(Path, "replace", put)
        yield done


@pytest.mark.parametrize("kind", KINDS)
def test_killed_after_every_write_there_is_one_release_and_one_spend(place, kind, monkeypatch):
    """Asked again after each kill, it goes on to its next write, and there is killed again."""
    (ask, name), honest, callers = KINDS[kind], PrivacyLedger.reserve, set()

    def reserve(*arguments, **named):
        callers.add(sys._getframe(1).f_code)
        return honest(*arguments, **named)

    monkeypatch.setattr(PrivacyLedger, "reserve", reserve)
    edition = f"k{[*KINDS].index(kind)}"
    for before in parts("before_a_query"):
        before(place, kind, edition)
    outcome, allowed, kills = None, 1, 0
    while outcome is None and kills < MOST_KILLS:
        with dead_after(allowed, monkeypatch) as done, suppress(BaseException):
            outcome = ask(place, edition)
        kills += outcome is None
        allowed = 1 if "ledger" in done else allowed + 1  # files may be written again before the next row
    assert callers == {query.charged.__code__}  # at run time, too, one line reserves
    assert ask(place, edition) == outcome
    assert kills >= 3  # after the charge, a draw, the release
    entries = (entry for account in place.ledger.accounts() for entry in account.entries if entry.study == name)
    assert set(Counter(entry.edition for entry in entries).values()) == {1}
    assert audit.verify(place.url).sequence > 0
