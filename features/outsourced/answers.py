"""The curator's second part: one answer a row, the same one whenever it is requested again.

Private answers are reserved as a whole before the first is drawn, and each is a draw of its own in the ledger, so
no row is noised twice. Answers without noise are given only under `answers_public`, by name. Which of the two a
published table's rows get the first answer fixes, in the ledger: the vault is a file that somebody may lose.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpbo.features.outsourced.box import PrivateAnswers
from dpbo.features.outsourced.curator import Vault
from dpbo.features.outsourced.messages import Answer, Query, digest, read_message, write_message
from dpbo_core.data import read_header, read_table
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.data.values import numbers
from dpbo_core.errors import AssumptionNotAccepted, DpboError, LedgerDamaged, Sealed, StudyInvalid
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.ledger.sources import file_source
from dpbo_core.privacy.guarantee import ANSWERS_PUBLIC
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.sensitive import Sensitive, messages, sealed
from dpbo_core.study.query import PrivateQuery, QueryContext, charged, fingerprint_of


@dataclass(frozen=True)
class Curator:
    """The curator's side of one run: answers queries about the tables in one folder of vaults."""

    context: QueryContext  # which ledger pays, who asks, where noise comes from
    vaults: Path  # the curator's folder
    names_rows: bool = True  # whether a message may tell which row of the curator's own file is asked about

    def answer_file(
        self, query: Path, answers: Path, out: Path, *, private: PrivateAnswers | None, accepts: tuple[str, ...]
    ) -> Answer:
        """Write to `out` what `answer` returns for the query in a file."""
        answer = self.answer(read_message(Query, query), answers, private=private, accepts=accepts)
        write_message(answer, out)
        return answer

    def answer(
        self, query: Query, answers: Path, *, private: PrivateAnswers | None, accepts: tuple[str, ...] = ()
    ) -> Answer:
        """Return the answer, recorded first: as before if asked before; exact if `private` is None, else noised."""
        if private is None and ANSWERS_PUBLIC.name not in accepts:
            raise AssumptionNotAccepted(
                f"answers without noise assume {ANSWERS_PUBLIC.name!r}: {ANSWERS_PUBLIC.statement}",
                cause="neither --private-answers nor --accept was given",
                remedy="give --private-answers LOW HIGH --epsilon E --delta D, or --accept answers_public if that "
                "is true",
            )
        vault = Vault(self.vaults / query.publication)
        release = self._published(query, vault)
        with vault.locked():
            record = vault.answers() or {"steps": {}, "rows": {}}
            _check_way(self.context.ledger.answer_terms(release.dataset, query.publication), private)
            earlier = _recorded_answer(record, query)
            if earlier is not None:
                return earlier
            place = int(vault.order(release.value["rows"])[query.row])
            value, scale = record["rows"].get(str(query.row), (None, 0.0))
            if value is None:
                if private is None:
                    value = self._public(answers, place, release.value["rows"])
                    self._fix_way(release, query.publication, private)
                else:
                    value, scale = self._noised(query, private, release, answers, place)
            answer = Answer.to(query, value=value, noise_scale=scale)
            record["rows"][str(query.row)] = (value, scale)
            record["steps"].setdefault(query.session, []).append(asdict(answer))
            vault.keep_answers(record)
        return answer

    def _fix_way(self, table: Release, publication: str, private: PrivateAnswers | None) -> None:
        """Record for good how this table's rows are answered: exactly (`private` is None) or with this noise."""
        _check_way(self.context.ledger.fix_answers(table.dataset, publication, _terms(private)), private)

    def _published(self, query: Query, vault: Vault) -> Release:
        """The release of the published table that the query names; refused if it, or that row, is not here."""
        release = self.context.ledger.release_named(query.publication)
        if release is None or not vault.table.exists():
            raise StudyInvalid(
                "the query is about a table that was not published from here",
                cause="another curator published it, or this command runs in another folder than the first one",
                remedy="run it where dpbo curate publish ran, with the same ledger",
            )
        if query.row >= release.value["rows"]:
            raise StudyInvalid(
                f"the query asks about row {query.row} of a table of {release.value['rows']}",
                cause="the modeller's table is not the published one",
                remedy="send the modeller the published file again",
            )
        return release

    def _noised(
        self, query: Query, private: PrivateAnswers, table: Release, answers: Path, place: int
    ) -> tuple[float, float]:
        """Return the noisy answer of row `place`, drawn now or read back from the ledger, and its noise's scale."""
        rows = table.value["rows"]
        _check_size(answers, rows)
        plan, mechanism = private.plan(table.guarantee), private.mechanism
        digest = fingerprint_of([query.publication, asdict(private)])  # one reservation pays for all answers
        key = QueryKey(digest, table.dataset, f"{table.dataset}: answers", table.edition, table.method)
        spend = replace(plan.spends[0], what=f"answer of row {query.row}")
        sources = (file_source(answers, "answers"),)
        private_query = PrivateQuery(key, plan, sources, draws=((plan.spends[0], mechanism),))
        charge = charged(private_query, self.context)
        sealed(  # after the charge: no library's words leave, though no answer was read yet
            lambda: self._fix_way(table, query.publication, private),
            failure=lambda: Sealed("a step on the curator's answers failed"),
            message=messages(DpboError, LedgerDamaged, StudyInvalid),
        )
        value = {"publication": query.publication, "range": [private.low, private.high]}

        def draw() -> float:
            outcome = charge.draw(
                spend, mechanism, lambda: Sensitive(private.steps(_answers_column(answers)[place])), row=query.row
            )
            charge.conclude(private_query.release(value, charge.standing))
            return private.value(outcome["draw"])

        answer = sealed(
            draw,
            failure=lambda: Sealed("a step on the curator's answers failed"),
            message=messages(DpboError, LedgerDamaged),
        )
        return answer, spend.noise_scale

    def _public(self, answers: Path, place: int, n_rows: int) -> float:
        """The exact (public) answer of the row at `place` of the curator's file; refused if not measured yet."""
        _check_size(answers, n_rows)
        value: float = _answers_column(answers)[place]
        if not math.isfinite(value):
            row = f"row {place + 1} of the data" if self.names_rows else "the row asked about"
            raise StudyInvalid(
                f"{row} has no answer in {str(answers)!r} yet",
                cause="the modeller asks about it now, and it was not measured before",
                remedy="measure it, write it into that row, and answer again (dpbo curate answer names the row)",
            )
        return value


def _check_way(fixed: Mapping[str, Any] | None, private: PrivateAnswers | None) -> None:
    """Refuse to answer exactly or with noise if the ledger has `fixed` the other way for this table."""
    if fixed is not None and fixed != _terms(private):
        raise StudyInvalid(
            "answers about this table were given another way before",
            cause="a row answered both with and without noise, or with two noises, would have no guarantee",
            remedy="use the first range, ε and δ again, or publish a new edition",
        )


def _terms(private: PrivateAnswers | None) -> dict[str, Any]:
    """Return how rows are answered, as JSON for the ledger: the noise's parameters, or that answers are public."""
    return {"public": True} if private is None else asdict(private)


def _recorded_answer(record: dict[str, Any], query: Query) -> Answer | None:
    """Return the recorded answer to this query; None if the query is the next one and so has no answer yet."""
    steps = record["steps"].get(query.session, [])
    if query.step <= len(steps):
        answer = Answer(**steps[query.step - 1])
        if answer.query == digest(query):
            return answer
        raise StudyInvalid(
            f"step {query.step} of this search was answered already, for another row",
            cause="an old state of the modeller was restored, or somebody replays a changed query",
            remedy="ask the modeller to go on from its newest state, or to begin a new one",
        )
    if query.step != len(steps) + 1:
        raise StudyInvalid(
            f"the query is step {query.step} of a search of which {len(steps)} steps were answered",
            cause="a query was lost, or belongs to another curator's folder",
            remedy="answer the earlier queries first",
        )
    return None


def _check_size(answers: Path, n_rows: int) -> None:
    header = read_header(answers, mode=SENSITIVE_FILE, display_name=str(answers))
    if len(header.columns) != 1 or header.n_records != n_rows:
        raise StudyInvalid(
            f"{str(answers)!r} has {len(header.columns)} columns and {header.n_records} rows, not 1 and {n_rows}",
            cause="answers are one column, one row for each row of the curator's data file, in its order",
            remedy="write it so; rows that nobody has asked about may be empty",
        )


def _answers_column(answers: Path) -> Any:
    """Return the SENSITIVE answers of a file of one column, as a list; NaN if a record is broken."""
    table = read_table(answers, mode=SENSITIVE_FILE, display_name=str(answers))
    (column,) = table.columns.values()
    return np.where(table.broken, np.nan, numbers(column)).tolist()
