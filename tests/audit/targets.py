"""What the fuzz campaign feeds: one door of the product each, with honest inputs to start from.

`take` does with an input what the product does with it; it returns an exit code or None, or raises. `balance` is
what every dataset's account holds, to be the same after a refusal as before it.
"""

import copy
import hashlib
import itertools
import json
import random
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from conftest import STUDY
from each_release import REPORTS, each_release
from of_features import merged, parts

from audit.mutations import ESC, WORDS
from dpbo_core.data import Preprocessing, read_header, read_table, table_of
from dpbo_core.data.header import PUBLIC_FILE, SENSITIVE_FILE
from dpbo_core.errors import DpboError
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.charge import Charge
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study import StudySpec
from dpbo_core.study.resolve import plan_study
from dpbo_core.study.spec import read_study
from dpbo_core.study.tuning import run_study

PLANNED = 8  # one accepted study in so many is planned too
LINES = ["1,2,0", "0.5,-1,1", "2,2,1", "-1,0.3,0", "0.1,0.2,1", "3,1,0", "-2,1,1", "1,1,0"]


@dataclass(frozen=True)
class Target:
    """A door: what it does with an input, honest inputs to mutate or a generator of inputs, and the accounts."""

    take: Callable[[Any], int | None]
    corpus: tuple[Any, ...] = ()
    draw: Callable[[random.Random], Any] | None = None
    balance: Callable[[], Any] | None = None


def studies() -> tuple[dict[str, Any], ...]:
    """Honest studies of several shapes."""
    files = {"training": "t.csv", "validation": "v.csv", "target": "y", "n_validation": len(LINES)}
    out = []
    for method, wanted in {
        "private_trajectory": {}, "private_grid": {}, "auto": {}, "lipschitz": {"accepts": ["x"]},
        "noisy_gp": {"accepts": ["gp_prior"]},
    }.items():  # fmt: skip
        study = copy.deepcopy(STUDY)
        study["study"] |= {"method": method, **wanted}
        study["space"]["lambda"]["points"] = 4
        study["search"]["steps"] = 2
        out.append(study)
    with_files = copy.deepcopy(out[1]) | {"data": files | {"ignore": ["z"], "missing": "mean"}}
    tree = copy.deepcopy(with_files)
    tree["model"] = {"estimator": "sklearn.tree.DecisionTreeClassifier", "score": "accuracy", "min_samples_leaf": 2}
    tree["space"] = {
        "max_depth": {"low": 1, "high": 3, "integer": True},
        "criterion": {"values": ["gini", "entropy"]},
    }
    more = [study(copy.deepcopy(with_files), len(LINES)) for study in parts("fuzzed_study")]
    return (*out, with_files, tree, *more)


def write_data(folder: Path) -> None:
    for name in ("t.csv", "v.csv"):
        (folder / name).write_text("a,b,y\n" + "\n".join(LINES) + "\n")


def study_bytes(folder: Path) -> Target:
    path, turn = folder / "study.toml", iter(range(10**9))

    def take(raw: bytes) -> None:
        path.write_bytes(raw)
        spec = read_study(path)
        assert StudySpec.from_dict(spec.to_dict()) == spec
        if next(turn) % PLANNED == 0:
            plan_study(spec)

    write_data(folder)
    return Target(take, corpus=tuple(tomli_w.dumps(study).encode() for study in studies()))


def study_tables(folder: Path) -> Target:
    by_file = study_bytes(folder)

    def take(tables: Any) -> None:
        try:
            raw = tomli_w.dumps(tables).encode()
        except (TypeError, ValueError, AttributeError, UnicodeEncodeError):  # TOML has no such value
            StudySpec.from_dict(tables if isinstance(tables, dict) else {})  # as Prefect's form hands it over
        else:
            by_file.take(raw)

    return Target(take, corpus=studies())


def study_run(folder: Path) -> Target:
    """Run to the end where nothing refuses. A budget of its own, which some of the mutants exceed."""
    url = f"sqlite:///{folder / 'ledger.db'}"
    ledger = PrivacyLedger(url)

    def take(tables: Any) -> None:
        run_study(StudySpec.from_dict(tables), ledger=ledger, folder=folder)

    write_data(folder)
    small = []
    for study in studies()[5:7]:
        study["privacy"] |= {"epsilon": 0.5}
        study["budget"] = {"epsilon": 20.0, "delta": 1e-5}
        small.append(study)
    return Target(take, corpus=tuple(small), balance=lambda: accounts(ledger))


def accounts(ledger: PrivacyLedger) -> Any:
    return [(account.budget, account.spent) for account in ledger.accounts() if account.entries]


CSV = tuple(
    text.encode()
    for text in (
        "a,b,y\n" + "\n".join(LINES) + "\n", 'a,"b, c",y\r\n1,"x ""y""",0\r\n2,z,1', "\ufeffa,b\n1,2\n",
        f"a,{ESC},y\n1,2,0\n2,3,1\n", f"a,b,y\n1,{ESC},0\n2,x,1\n", "a,a,y\n1,2,3\n", "a\n\n\n", "",
    )
)  # fmt: skip


def csv_public(folder: Path) -> Target:
    path = folder / "t.csv"

    def take(raw: bytes) -> None:
        path.write_bytes(raw)
        table = read_table(path, mode=PUBLIC_FILE, display_name="t.csv")
        fitted = Preprocessing.fit(table, list(table.columns)[-1], unit_ball=True, missing="mean")
        assert np.isfinite(fitted.transform(table).X).all()

    return Target(take, corpus=CSV)


def csv_sensitive(folder: Path) -> Target:
    return sensitive_file(folder / "v.csv", CSV)


def sensitive_file(path: Path, corpus: tuple[bytes, ...]) -> Target:
    public = table_of({"a": [0.0, 1.0, 2.0], "b": [1.0, 0.0, 2.0], "y": [0, 1, 0]})
    fitted = Preprocessing.fit(public, "y", unit_ball=True)

    def take(raw: bytes) -> None:
        path.write_bytes(raw)
        header = read_header(path, mode=SENSITIVE_FILE, display_name=path.name)
        table = read_table(path, mode=SENSITIVE_FILE, display_name=path.name)
        assert table.n_records == header.n_records
        if set(table.columns) == {"a", "b", "y"}:
            assert np.isfinite(fitted.transform(table).X).all()

    return Target(take, corpus=corpus)


def parquet(folder: Path) -> Target:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [
        pa.table({"a": [1.0, None, 3.0], "b": [1, 2, 3], "y": ["0", "1", ESC]}),
        pa.table({"a": pa.array(["x", "1", None]).dictionary_encode(), "b": [True, False, None], "y": [0, 1, 0]}),
        pa.table({"a": [[1], [2]], "b": [b"\xff", b"1"], "y": [{"k": 1}, {"k": 2}]}),
    ]
    corpus = []
    for table in tables:
        for wanted in ({"compression": "none"}, {"compression": "snappy"}, {"data_page_version": "2.0"}):
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, **wanted)
            corpus.append(sink.getvalue().to_pybytes())
    return sensitive_file(folder / "v.parquet", tuple(corpus))


def ledger_names(folder: Path) -> Target:
    """Every name that reaches a row of the ledger, past the study's own checks and through them."""
    from test_ledger import key, plan

    from dpbo.flows.cli.budget import print_accounts
    from dpbo.flows.cli.budget_words import set_cap

    ledger = PrivacyLedger(f"sqlite:///{folder / 'ledger.db'}")
    ledger.set_budget(PrivacyBudget.of("d", epsilon=1e6, delta=1e-6))
    tables = tables_of(folder / "ledger.db")

    words = [word for word in WORDS if "\ud800" not in word]  # no file of a study can hold half a character

    def draw(rng: random.Random) -> tuple[str, ...]:
        return tuple(rng.choice(words) + rng.choice(("", "", str(rng.random()))) for _ in range(3))

    def take(names: tuple[str, ...]) -> None:
        dataset, study, edition = names
        try:
            named = replace(key(hashlib.sha256(repr(names).encode()).hexdigest()), study=study, edition=edition)
            ledger.reserve(Charge(named, plan(1e-6)), noise="operating_system")
            ledger.accounts(dataset)
        finally:
            assert tables_of(folder / "ledger.db") == tables
        print_accounts(tuple(replace(one, entries=one.entries[-2:]) for one in ledger.accounts("d")))
        told = copy.deepcopy(STUDY)
        told["study"] |= {"name": study, "edition": edition}
        told["privacy"]["dataset"] = dataset
        StudySpec.from_dict(told)
        set_cap(dataset, epsilon=1.0)

    return Target(take, draw=draw)


def tables_of(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        found = [row[0] for row in connection.execute("SELECT name FROM sqlite_master ORDER BY name")]
    connection.close()
    return found


def used_ledger(folder: Path) -> str:
    """A ledger with a cap and two finished studies."""
    from test_ledger import GUARANTEE, key, plan

    from dpbo_core.privacy.release import Release

    url = f"sqlite:///{folder / 'ledger.db'}"
    ledger = PrivacyLedger(url)
    ledger.set_budget(PrivacyBudget.of("d", epsilon=5.0, delta=0.0))
    for name in "ab":
        reservation = ledger.reserve(Charge(key(name), plan(0.5)), noise="operating_system")
        reservation.record(plan(0.5).spends[0], lambda: {"draw": 7, "shown": 0.25})
        value = {"score": 0.25}
        reservation.conclude(Release(value, GUARANTEE, plan(0.5).spends, name, "1", "private_grid", "d"))
    return url


def ledger_cells(folder: Path) -> Target:
    """A cell of the database overwritten past dpbo: the check must say so, and every reader survive it."""
    from dpbo.flows.cli.budget import print_accounts

    used_ledger(folder)
    honest = (folder / "ledger.db").read_bytes()
    with sqlite3.connect(folder / "ledger.db") as connection:
        rows = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        cells = [
            (table, column[1])
            for (table,) in connection.execute(rows).fetchall()
            for column in connection.execute(f"PRAGMA table_info({table})").fetchall()
        ]
        triggers = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
    connection.close()
    turn = iter(range(10**9))
    values = (*WORDS[:24], "{}", "[]", "null", '{"a": 1}', "[" * 2000, -1, 0, 2**62, 1e308, None, b"\xff\x00", ESC)

    def draw(rng: random.Random) -> tuple[str, str, Any]:
        value = rng.choice(values)
        return *rng.choice(cells), value

    def take(change: tuple[str, str, Any]) -> None:
        table, column, value = change
        path = folder / f"{next(turn)}.db"  # a new one: connections to the last input's are kept open
        path.write_bytes(honest)
        connection = sqlite3.connect(path)
        try:
            for trigger in triggers:
                connection.execute(f"DROP TRIGGER {trigger}")
            connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
            connection.commit()
        except (sqlite3.Error, UnicodeEncodeError):
            return  # the database itself refuses
        finally:
            connection.close()
        failed = None
        for read in (
            lambda: audit.verify(f"sqlite:///{path}"),
            lambda: list(audit.export(f"sqlite:///{path}")),
            lambda: print_accounts(PrivacyLedger(f"sqlite:///{path}").accounts()),
        ):
            try:
                read()
            except DpboError as error:
                failed = error
        if failed is not None:
            raise failed

    return Target(take, draw=draw)


def ledger_export(folder: Path) -> Target:
    from dpbo.flows.cli.budget_words import verify

    url = used_ledger(folder)
    lines = "".join(f"{line}\n" for line in audit.export(url)).encode()
    (folder / "mlruns").mkdir()
    for file in folder.glob("ledger*"):
        file.rename(folder / "mlruns" / file.name)
    ledger, path = PrivacyLedger(f"sqlite:///{folder / 'mlruns' / 'ledger.db'}"), folder / "copy.jsonl"

    def take(raw: bytes) -> None:
        path.write_bytes(raw)
        verify(path)

    return Target(take, corpus=(lines, *lines.splitlines(keepends=True)), balance=lambda: accounts(ledger))


def certificate(folder: Path) -> Target:
    from dpbo.flows.cli.verify import check_certificate, release_of
    from dpbo_core.report.pooled import pool

    found = each_release(folder)
    reports = [replace(found[name], dataset="elsewhere") for name in REPORTS]
    corpus = [json.dumps(release.to_json()).encode() for release in found.values()]
    path = folder / "release.json"

    def take(raw: bytes) -> None:
        path.write_bytes(raw)
        refusal = None
        try:
            print(check_certificate(path))
        except DpboError as error:
            refusal = error
        for report in reports:  # one of them is of the same model, or none
            try:
                pool([report, release_of(path)])
            except DpboError:
                continue
            assert refusal is None, "a pool takes what verify refuses"
        if refusal is not None:
            raise refusal

    return Target(take, corpus=tuple(corpus))


def final_model(folder: Path) -> Target:
    """Both files of a saved model: a message, or numbers of the right form."""
    from sklearn.tree import DecisionTreeClassifier

    from dpbo_core.models.estimators import fitted
    from dpbo_core.models.final_model.dpbo_served_model import ESTIMATOR
    from dpbo_core.models.final_model.storage import NUMBERS
    from dpbo_core.study.final_training import FinalModel

    columns = {"a": [1.0, 2.0, 3.0, 4.0], "b": ["x", "y", "x", "y"], "y": [0, 1, 0, 1]}
    told = Preprocessing.fit(table_of(columns), "y", unit_ball=False)
    encoded = told.transform(table_of(columns))
    saved = folder / "model"
    FinalModel(told, fitted(DecisionTreeClassifier(), encoded.X, encoded.labels, display_name="a tree")).save(saved)
    honest = {name: (saved / name).read_bytes() for name in (NUMBERS, ESTIMATOR)}

    def take(raw: bytes) -> None:
        which = NUMBERS if raw[:1] in (b"{", b"[") else ESTIMATOR
        (saved / which).write_bytes(raw)
        try:
            FinalModel.load(saved)
        finally:
            (saved / which).write_bytes(honest[which])

    return Target(take, corpus=tuple(honest.values()))


VERBS = (
    ("plan",), ("budget",), ("budget", "show"), ("budget", "set"), ("budget", "export"), ("budget", "verify"),
    ("verify",), ("init",), ("tune",), ("nothing",), (), *itertools.chain(*parts("FUZZED_VERBS")),
)  # fmt: skip
FLAGS = (
    "--json", "--debug", "--epsilon", "--delta", "--relation", "--accept", "--public", "--out", "--accept-restored",
    "--dataset", "--edition", "--target", "--help", "--name", "--validation", "--training", "--version",
    *itertools.chain(*parts("FUZZED_FLAGS")),
)  # fmt: skip
FILES = (
    "study.toml", "t.csv", "v.csv", "bad.toml", "release.json", "Q.json", "Z.parquet", "X.csv", "Y.csv", ".",
    "missing.toml", "../../etc/passwd", "/dev/null", "people", "replace_one", "1", "1e-6", "0.5",
)  # fmt: skip


def command_line(folder: Path) -> Target:
    """Random words on the command line. What would start a server, or run a flow on a whole study, is left out."""
    from unittest.mock import patch

    from dpbo.flows.cli import app as cli

    write_data(folder)
    (folder / "study.toml").write_text(tomli_w.dumps(studies()[5]))
    (folder / "bad.toml").write_bytes(b"[study]\nname = '\x1b[2J'\n")
    (folder / "release.json").write_text("[" * 5000)
    for prepare in parts("prepare_fuzzed"):
        prepare(folder)
    (folder / "Q.json").write_text('{"kind": "dpbo query"}')
    safe = [word for word in WORDS if "\x00" not in word and "\ud800" not in word]  # no argument can hold these

    def draw(rng: random.Random) -> list[str]:
        words = [*rng.choice(VERBS)]
        words += [rng.choice(rng.choice((FLAGS, FILES, FILES, safe))) for _ in range(rng.randrange(6))]
        harmful = words[:1] == ["tune"] and "study.toml" in words
        return ["plan", *words[1:]] if harmful else [word for word in words if word != "--debug"]

    def take(words: list[str]) -> int | None:
        mlruns = PrivacyLedger(f"sqlite:///{folder / 'ledger.db'}")
        before = accounts(mlruns)
        with patch.object(sys, "argv", ["dpbo", *words]):
            try:
                cli.main()
                code: Any = 0
            except SystemExit as stop:
                code = stop.code or 0
        assert accounts(mlruns) == before
        return int(code)

    own = folder / "mlruns" / "ledger.db"
    return Target(
        take, draw=draw, balance=lambda: accounts(PrivacyLedger(f"sqlite:///{own}")) if own.exists() else []
    )


TARGETS: dict[str, Callable[[Path], Any]] = {
    "study, bytes": study_bytes,
    "study, tables": study_tables,
    "study, run": study_run,
    "CSV, public": csv_public,
    "CSV, sensitive": csv_sensitive,
    "Parquet": parquet,
    **merged("fuzzed"),
    "ledger names": ledger_names,
    "ledger cells": ledger_cells,
    "ledger export": ledger_export,
    "certificate": certificate,
    "final model": final_model,
    "command line": command_line,
}
