"""What the outsourced search adds to the suites that test all kinds of private queries alike."""

from functools import partial

import numpy as np
from exchanges import PRIVATE, world, write_csv

from dpbo.features.outsourced import flow, session
from dpbo.features.outsourced.answers import Curator
from dpbo.features.outsourced.box import Outsourced
from dpbo.features.outsourced.curator import Publication, publish
from dpbo.features.outsourced.messages import Query, read_message
from dpbo_core.ledger.accounting.budget import PrivacyBudget


def of_no_study(file):
    """The flows that name files of no study."""
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
    publication = Publication(Outsourced(3.0, 1e-6, norm_bound=4.0), "people", edition)
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
