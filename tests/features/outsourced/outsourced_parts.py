"""What the outsourced search adds to the suites that test all kinds of private queries alike."""

import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from exchanges import PRIVATE, world, write_csv

from dpbo.features.outsourced import session
from dpbo.features.outsourced.answers import Curator
from dpbo.features.outsourced.box import REPLACE, Outsourced, PrivateAnswers
from dpbo.features.outsourced.curator import Publication, publish
from dpbo.features.outsourced.messages import Answer, Query, read_message, read_published
from dpbo_core.errors import DpboError
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.methods import EXCHANGES
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.study.query import QueryContext


def of_no_study(file):
    """The flows that name files of no study."""
    from dpbo.features.outsourced import flow

    terms = flow.Outsourcing(None, file, file, ".", 1)
    return {"curator": partial(flow.curate.fn, terms), "modeller": partial(flow.model.fn, terms)}


RELEASES = {"curate": lambda place: world(place).publish().release}


# One way for every query


def prepare(place):
    rows = np.random.default_rng(0).normal(size=(20, 2))
    write_csv(place.folder / "X.csv", rows)
    write_csv(place.folder / "Y.csv", -(rows**2).sum(axis=1, keepdims=True))
    place.ledger.set_budget(PrivacyBudget.of("people", epsilon=10_000.0, delta=1e-2))


def published(place, edition):
    publication = Publication(Outsourced(3.0, 1e-6, relation=REPLACE, norm_bound=4.0), "people", edition)
    rows, out = place.folder / "X.csv", place.folder / f"Z{edition}.parquet"
    return publish(publication, rows, out, place.run, vaults=place.folder / "curator").release


def before_a_query(place, kind, edition):
    if kind == "an answer":
        published(place, edition)


def answered(place, edition):
    table = place.folder / f"Z{edition}.parquet"
    if not table.exists():
        published(place, edition)
    question = place.folder / f"Q{edition}.json"
    if not question.exists():
        session.suggest(table, place.folder / f"state{edition}", question)
    curator = Curator(place.run, place.folder / "curator")
    return curator.answer(read_message(Query, question), place.folder / "Y.csv", private=PRIVATE)


QUERIES = {"a published table": (published, "people: table"), "an answer": (answered, "people: answers")}


# Telling neighbours apart

QUICK = {"outsourced": "a row and its opposite"}  # the pair of the short run
QUICK_RUNS = {"outsourced": 400}


def worst_pairs(epsilon):
    from worst_rows import answers_case, moved_case, rows_case

    many, delta = (30_000, 30_000), 1e-5
    return {
        "outsourced": (
            rows_case("a row and its opposite", 2 * epsilon, delta, runs=many),
            moved_case("a row that moves by one", 2 * epsilon, delta, runs=many),
            answers_case("private answers", 2 * epsilon, delta, runs=many),
        )
    }


# Campaigns of `make audit`


def kills(*, short):
    import exchange_kills
    from audit.verdict import line, table

    with TemporaryDirectory() as folder:
        figures = exchange_kills.campaign(Path(folder), searches=1 if short else 5)
    head = "exchange | searches | exchanges | kills | other states | drawn twice or never | overspends"
    return f"""Either party of an outsourced search, killed at random moments of every command and run again, beside
a search over the same table that nobody kills; every count but the first three must be zero.

{table(head, [line("outsourced", *vars(figures).values())])}"""


def replayed():
    """A query of an outsourced search that is sent again, and an answer of another search."""
    from audit.ways import Way

    with TemporaryDirectory() as name:
        w = world(Path(name))
        w.publish()
        got, n = [], 5
        for _ in range(n):
            w.suggest()
            first = w.answer(private=PRIVATE, accepts=())
            before = [account.spent for account in w.ledger.accounts()]
            again = w.answer(private=PRIVATE, accepts=())
            got += ["another answer"] * (first != again)
            got += ["charged again"] * ([account.spent for account in w.ledger.accounts()] != before)
            w.update()
            with suppress(DpboError):
                w.update()
                got.append("taken in twice")
        return Way("dpbo curate", "modeller", "replay: a query, and an answer, sent again", 2 * n, tuple(got))


INTRUSIONS = {"replay": replayed}


# What the fuzz campaign feeds

FUZZED_VERBS = (("curate", "publish"), ("curate", "answer"), ("model", "suggest"), ("model", "update"))
FUZZED_TIMES = {
    "query": 9_000, "answer": 9_000, "published table": 3_000, "modeller's state": 3_000,
    "query to the curator": 500,
}  # fmt: skip
FUZZED_FLAGS = ("--state", "--private-answers", "--transform", "--norm-bound", "--dim")


def prepare_fuzzed(folder):
    world(folder).publish()


def target(folder, door):
    """A curator and a modeller in the middle of a search; `door` is the file that is mutated."""
    from audit.targets import Target, accounts

    made = world(folder)
    made.publish()
    made.exchange(private=PRIVATE)
    query, answer = (folder / name for name in ("Q-S.json", "A-S.json"))
    written = query.read_bytes(), answer.read_bytes()
    made.suggest()
    corpus = {
        "query": (written[0], query.read_bytes()),
        "answer": (written[1],),
        "table": ((folder / "Z.parquet").read_bytes(),),
        "state": ((folder / "S").read_bytes(), b'{"format": 1}'),
    }[door.removesuffix(", answered")]
    path, ledger = folder / "given", made.ledger
    curator = Curator(QueryContext(ledger), made.vaults)

    def take(raw):
        path.write_bytes(raw)
        if door == "query":
            read_message(Query, path)
        elif door == "answer":
            read_message(Answer, path)
            session.update(path, folder / "S")
        elif door == "table":
            read_published(path)
        elif door == "state":
            session.progress_text(path)
            session.suggest(folder / "Z.parquet", path, folder / "out.json")
            session.update(folder / "A-S.json", path)
        else:
            curator.answer_file(path, folder / "Y.csv", folder / "out.json", private=PRIVATE, accepts=())

    return Target(take, corpus=corpus, balance=(lambda: accounts(ledger)) if "answered" in door else None)


def fuzzed():
    doors = {
        "query": "query",
        "answer": "answer",
        "published table": "table",
        "modeller's state": "state",
        "query to the curator": "query, answered",
    }
    return {name: partial(target, door=door) for name, door in doors.items()}


# Tables without a header line


def commands_on_a_file(folder):
    """Commands on bare.csv, which has no header line, and their exit codes."""
    publish = ("curate", "publish", "bare.csv", "--out", "z.parquet", "--dataset", "clinic", "--epsilon", "1")
    (folder / "exchange.toml").write_text('data = "bare.csv"\nepsilon = 1.0\ndelta = 1e-6\nnorm_bound = 9.0\n')
    bounded = (*publish, "--relation", "replace_one", "--norm-bound", "9", "--delta", "1e-6")
    return {publish: 2, bounded: 0, ("curate", "plan", "exchange.toml"): 0}


# What an observer sees

EXCHANGE = """
import subprocess, sys
def dpbo(*words):
    subprocess.run([sys.executable, "-c", "from dpbo.flows.cli import main; main()", *map(str, words)], check=True)
dpbo("budget", "set", "people", "--epsilon", 20, "--delta", 1e-5)
dpbo("curate", "publish", "validation.csv", "--out", "Z.parquet", "--dataset", "people",
     "--epsilon", 3, "--delta", 1e-6, "--relation", "replace_one", "--norm-bound", 4)
for step in range(2):
    dpbo("model", "suggest", "Z.parquet", "--state", "S", "--out", "Q.json")
    dpbo("curate", "answer", "Q.json", "--answers", "validation-answers.csv", "--out", "A.json",
         "--private-answers", -10, 0, "--epsilon", 1, "--delta", 1e-6)
    dpbo("model", "update", "A.json", "--state", "S")
"""


def rows_of_an_exchange(world):
    """A curator's table of 40 candidate rows and its answers; its neighbour has another row and answer."""
    rng = np.random.default_rng(12)
    X = np.round(rng.uniform(-0.9, 0.9, size=(40, 2)), 6)
    if world != "first":
        X[7] = (-0.9, 0.9) if world == "other scores" else (0.0, 0.0)
    answers = -(X**2).sum(axis=1)
    table = ["x0,x1", *(f"{a:+.6f},{b:+.6f}" for a, b in X)]
    return {
        "validation.csv": "\n".join(table) + "\n",
        "validation-answers.csv": "\n".join(["x0", *(f"{y:+.6f}" for y in answers)]) + "\n",
    }


def observed(study, way):
    return {"outsourced": way(rows_of_an_exchange, [sys.executable, "-c", EXCHANGE], uses_prefect=False)}


# Library calls that are made to fail


def failing_queries(folder, ledger, first_rows):
    from failure_worlds import LIMIT

    del first_rows
    moves = NeighboringRelation.ROW_MOVES_BY_ONE
    ledger.set_budget(PrivacyBudget.of("rows", epsilon=LIMIT, delta=0.5, relation=moves))

    def curate(edition):
        publication = Publication(Outsourced(epsilon=1.0, delta=1e-6, relation=moves), "rows", edition)
        vaults, context = folder / "vaults", QueryContext(ledger)
        release = publish(publication, folder / "rows.csv", folder / "z.parquet", context, vaults=vaults).release
        query = Query(publication=release.release_id, session="0" * 16, step=1, row=2)
        private = PrivateAnswers(-1.0, 1.0, 1.0, 1e-6)
        return Curator(QueryContext(ledger), vaults).answer(query, folder / "answers.csv", private=private)

    return {"outsourced": curate}


STANDING_ELSEWHERE = "outsourced"  # test_outsourced_certificate.py


# The rules of the house

MODELLER = "the modeller knows nothing"
PLANTED_IMPORTS = [
    ("features/outsourced/modeler.py", "import dpbo_core.data.table", MODELLER),
    ("dpbo_core/search/bo.py", "import dpbo_core.privacy.sensitive", MODELLER),
    ("features/outsourced/session.py", "import dpbo.features.outsourced.curator", MODELLER),
    ("features/outsourced/box.py", "import dpbo_core.methods.lipschitz", "methods do not import"),
]
PLANTED_ALONE = {
    "dpbo_core/search/bo.py": "another file of its room imports the same, and one way to a module is told"
}

FAILURE_ROOMS = {"features.outsourced": (("release", "sealed"), "arithmetic on integer sums of public range")}

CLAIMS = {("another party should search", 1): lambda _: "outsourced" in EXCHANGES}
PRINTED_KEYS = {"told_apart": "a key of what `dpbo curate plan --json` prints"}
SAYS_A_PAPERS_WORDS = "features/outsourced/command.py"  # `dpbo curate plan` says what Theorem 3 bounds
OPENS_SENSITIVE = ("features/outsourced/geometry.py",)
