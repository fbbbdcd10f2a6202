"""Two parties in a folder, for tests: a curator's files, the modeller's files, and one exchange between them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpbo.features.outsourced import session
from dpbo.features.outsourced.answers import Curator
from dpbo.features.outsourced.box import REPLACE, Outsourced, PrivateAnswers
from dpbo.features.outsourced.curator import Publication, publish
from dpbo.features.outsourced.messages import Query, read_message, write_message
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.study.query import OS_NOISE, QueryContext

PRIVATE = PrivateAnswers(-20.0, 0.0, 1.0, 1e-6)


def write_csv(path, rows):
    columns = [f"x{j}" for j in range(rows.shape[1])]
    lines = [",".join(columns), *(",".join(map(repr, row)) for row in rows.tolist())]
    path.write_text("\n".join(lines) + "\n")
    return path


@dataclass(frozen=True)
class World:
    """Everything on disk; each method is one command."""

    folder: Path

    @property
    def ledger(self):
        return PrivacyLedger(f"sqlite:///{self.folder / 'ledger.db'}")

    @property
    def vaults(self):
        return self.folder / "curator"

    def publish(self, box=None, *, edition="1", source=None, out="Z.parquet"):
        box = box or Outsourced(3.0, 1e-6, relation=REPLACE, norm_bound=4.0)
        publication = Publication(box, "people", edition)
        return publish(
            publication,
            self.folder / "X.csv",
            self.folder / out,
            QueryContext(self.ledger, source=source or OS_NOISE),
            vaults=self.vaults,
        )

    def suggest(self, state="S"):
        return session.suggest(self.folder / "Z.parquet", self.folder / state, self.folder / f"Q-{state}.json")

    def answer(self, state="S", *, private=None, accepts=("answers_public",), source=None):
        query = read_message(Query, self.folder / f"Q-{state}.json")
        curator = Curator(QueryContext(self.ledger, source=source or OS_NOISE), self.vaults)
        given = curator.answer(query, self.folder / "Y.csv", private=private, accepts=accepts)
        write_message(given, self.folder / f"A-{state}.json")
        return given

    def update(self, state="S"):
        return session.update(self.folder / f"A-{state}.json", self.folder / state)

    def exchange(self, state="S", **answer):
        self.suggest(state)
        self.answer(state, **answer)
        return self.update(state)


def world(folder, *, n=60, d=3, epsilon=50.0, delta=1e-5, relation="replace_one", public=False, seed=0):
    """A curator's rows and answers, and a cap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    write_csv(folder / "X.csv", X)
    write_csv(folder / "Y.csv", -((X - 0.5) ** 2).sum(axis=1, keepdims=True))
    made = World(folder)
    if public:
        made.ledger.set_budget(PrivacyBudget.without_limit("people"))
    else:
        relation = NeighboringRelation(relation)
        made.ledger.set_budget(PrivacyBudget.of("people", epsilon=epsilon, delta=delta, relation=relation))
    return made
