"""Validation tables that are no files: rows of a real PostgreSQL, objects of a store; read as files are."""

import io
import itertools
import json
import logging
import socket
import socketserver
import threading
import traceback
import uuid
from contextlib import contextmanager, suppress
from dataclasses import replace
from urllib.parse import quote, unquote

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
import tomli_w
from canary import forms_of_text, search
from conftest import new_database
from object_store import KEY, object_store

from dpbo_core.data import read_header, read_table
from dpbo_core.data.addresses import parse_address, parse_place
from dpbo_core.data.fetched import fetched, server_marks
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.data.people import read_people
from dpbo_core.errors import PolicyRefused, Sealed, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import same_records
from dpbo_core.study import StudySpec
from dpbo_core.study.named_sources import named_source, place_source
from dpbo_core.study.tuning import run_study

CANARY = "canary-7f3e9a41c0"
PG = "postgresql://db.example/ehr?query="


# --- what an address may be


@pytest.mark.parametrize(("query", "source", "columns", "order"), [
    ("select * from visits", "public.visits", (), ""),
    ('SELECT Age, "Sex" FROM ward.Visits;', "ward.visits", ("age", "Sex"), ""),
    ('select a from v order by d desc, "E,""f" asc,g', "public.v", ("a",),
     ' ORDER BY "d" DESC, "E,""f" ASC, "g"'),
    ('select"a"from"v"order by"b"', "public.v", ("a",), ' ORDER BY "b"'),
    ("select alter from ärzte", "public.ärzte", ("alter",), ""),
])  # fmt: skip
def test_a_query_of_one_table_is_read(query, source, columns, order):
    address = parse_address(PG + query)
    assert address.identity == f"postgresql://db.example/ehr#{source}"
    assert (address.select.columns, address.select.order) == (columns, order)


@pytest.mark.parametrize("query", [
    "", "select a::int from v", "select 1/a from v", "select avg(a) over () from v", "select a from v, w",
    "select a from (select a from v) x", "select a from v; drop table v", "select a from v union select a from w",
    "select a from v where b = 1",  # how many records meet it would be told before any charge
    "select a from v limit 3", "select a from v -- note", "delete from v", "select select from v",
    'select "" from v', "select a from v order by", "select a from v order by desc", "select a from order",
    "select a from v order by b nulls first",
])  # fmt: skip
def test_a_query_that_could_fail_on_a_record_or_mix_records_is_refused(query):
    with pytest.raises(StudyInvalid, match=r"is not of columns of one table.*SELECT age"):
        parse_address(PG + query)


@pytest.mark.parametrize("text", [
    f"postgresql://ann:{CANARY}@db/ehr?query=select a from v", f"mysql://db/{CANARY}?query=select a from v",
    f"postgresql://db/ehr?password={CANARY}&query=select a from v", f"s3://{CANARY}:secret@bucket/v.csv",
    f"postgresql://db/ehr?query=select a from v&password={CANARY}", f"s3://bucket/v.csv?secret_key={CANARY}",
    f"postgresql://db:{CANARY}/ehr?query=select a from v", f"s3://bucket/{CANARY}.pickle", f"s3://{CANARY}.csv",
    f"s3://bucket/v.csv?endpoint_override=key:{CANARY}@host:9000", "postgresql://db?query=select a from v",
    f"postgresql://ann%3A{CANARY}%40db/ehr?query=select a from v", "postgresql:///ehr?query=select a from v",
    f"postgresql://db/ehr%20password={CANARY}?query=select a from v",
    f"postgresql://db,{CANARY}/ehr?query=select a from v", f"postgresql://{CANARY}./ehr?query=select a from v",
    f"postgresql://{CANARY}%20:5432/ehr?query=select a from v",
    f"s3://bucket/v.csv?endpoint_override=https://{CANARY}.:443/",
])  # fmt: skip
def test_an_address_that_is_refused_is_not_repeated(text, tables):
    tables["data"] = {"training": "t.csv", "validation": text, "n_validation": 5, "target": "y"}
    with pytest.raises(StudyInvalid) as refused:
        StudySpec.from_dict(tables)
    assert CANARY not in refused.value.message()
    assert ("user or a password" in refused.value.message()) == ("@" in unquote(text))


def test_the_training_data_are_a_file(tables):
    tables["data"] = {"training": "s3://b/t.csv", "validation": "v.csv", "n_validation": 5, "target": "y"}
    with pytest.raises(StudyInvalid, match=r"data\.training is an address"):
        StudySpec.from_dict(tables)


def test_the_owner_names_an_address_as_the_study_does():
    of = named_source(PG + "select age from visits")
    assert (of.kind, of.name) == ("table", "postgresql://db.example/ehr#public.visits")
    assert same_records(of, named_source(PG + "select * from visits order by id"))
    assert not same_records(of, named_source(PG + "select * from patients"))
    stored = named_source("s3://clinic/{date}/v.parquet?region=eu-central-1")
    assert stored.name == "s3://clinic/{date}/v.parquet"
    assert same_records(stored, named_source("s3://clinic/2026-11-22/v.parquet"))
    assert not same_records(stored, named_source("s3://clinic/all/v.parquet"))
    with pytest.raises(StudyInvalid, match="user or a password"):
        named_source("s3://key:secret@clinic/v.parquet")


# --- PostgreSQL


@pytest.fixture
def database(postgresql, monkeypatch):
    """Engine of an empty database, and a function that makes the address of a query of it."""
    url = new_database(postgresql)
    monkeypatch.setenv("PGUSER", "postgres")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    host, name = sa.engine.make_url(url).query["host"], sa.engine.make_url(url).database
    return engine, lambda query: f"postgresql://{quote(host, safe='')}/{name}?query={query}"


def made(engine, *statements):
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def study_of(tables, folder, validation, *, n=40, seed=0):
    """Two files of 40 records on one axis, and a study whose validation table is at `validation`."""
    rng = np.random.default_rng(seed)
    for name in ("t", "v"):
        x = rng.normal(size=40)
        pd.DataFrame({"x": x, "ward": rng.choice(["a", "b"], 40), "y": (x > 0).astype(int)}).to_csv(
            folder / f"{name}.csv", index=False
        )
    tables["data"] = {"training": "t.csv", "validation": validation, "n_validation": n, "target": "y"}
    tables["study"]["method"], tables["space"]["lambda"]["points"] = "private_grid", 4
    return StudySpec.from_dict(tables)


def in_table(engine, folder, table="visits"):
    pd.read_csv(folder / "v.csv").to_sql(table, engine, index=False)


def test_a_study_runs_on_rows_and_its_release_holds_no_secret(here, tables, database, monkeypatch):
    engine, address = database
    monkeypatch.setenv("PGPASSWORD", CANARY)
    query = "select x, ward, y from visits order by x"
    tables["privacy"]["epsilon"], tables["budget"]["epsilon"] = 100.0, 200.0  # the exact score shows
    study = study_of(tables, here, address(query))
    in_table(engine, here)
    ledger = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    release = run_study(study, ledger=ledger, folder=here).release
    assert 0.5 < release.value["score"] < 1.1
    assert run_study(study, ledger=ledger, folder=here).replayed
    assert not search(here, {CANARY: forms_of_text(CANARY)})
    assert CANARY not in json.dumps(release.to_json())
    tables["privacy"]["dataset"], tables["data"]["validation"] = "others", address("select * from visits")
    with pytest.raises(PolicyRefused, match=r"#public\.visits is scored as dataset 'people'"):
        run_study(StudySpec.from_dict(tables), ledger=ledger, folder=here)


@contextmanager
def forwarded(folder):
    """The port of this machine's that leads to the socket in `folder`, as a tunnel or a pooler does."""

    class Both(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.socket(socket.AF_UNIX) as inner:
                inner.connect(f"{folder}/.s.PGSQL.5432")
                back = threading.Thread(target=copied, args=(inner, self.request))
                back.start()
                copied(self.request, inner)
                back.join()

    def copied(one, other):
        with suppress(OSError):
            while part := one.recv(65536):
                other.sendall(part)
            other.shutdown(socket.SHUT_WR)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Both) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_a_server_under_another_name_is_one_budget(here, tables, database):
    """It says itself which it is: no second dataset is charged for its table, also where the table was renamed."""
    engine, address = database
    socket_folder = unquote(address("").partition("://")[2].partition("/")[0])
    study = study_of(tables, here, address("select * from visits"))
    in_table(engine, here)
    ledger = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    run_study(study, ledger=ledger, folder=here)
    with forwarded(socket_folder) as port:
        elsewhere = address("select * from visits").replace(quote(socket_folder, safe=""), f"127.0.0.1:{port}")

        def asked(dataset, validation, edition):
            tables["privacy"]["dataset"], tables["data"]["validation"] = dataset, validation
            tables["study"]["edition"] = edition
            return run_study(StudySpec.from_dict(tables), ledger=ledger, folder=here)

        assert (
            place_source(parse_address(elsewhere)).name
            != place_source(parse_address(address("select a from b"))).name
        )
        with pytest.raises(PolicyRefused, match=r"is scored as dataset 'people', and this study calls it 'others'"):
            asked("others", elsewhere, "1")
        asked("people", elsewhere, "2")  # the dataset's own table, whatever its server is called
        made(engine, "ALTER TABLE visits RENAME TO stays")
        with pytest.raises(PolicyRefused, match=r"is scored as dataset 'people'"):
            asked("others", elsewhere.replace("visits", "stays"), "1")
        made(engine, "CREATE TABLE visits AS SELECT * FROM stays", "DROP TABLE stays")
        with pytest.raises(PolicyRefused, match=r"is scored as dataset 'people'"):
            asked("others", elsewhere, "1")
        made(engine, "CREATE TABLE more AS SELECT * FROM visits")
        asked("others", elsewhere.replace("visits", "more"), "1")
    assert [account.budget.dataset for account in ledger.accounts()] == ["others", "people"]


def test_a_server_that_does_not_say_which_it_is_is_refused_before_the_charge(here, tables, database, monkeypatch):
    engine, address = database
    study = study_of(tables, here, address("select * from visits"))
    in_table(engine, here)
    role = f"reader_{uuid.uuid4().hex}"
    made(
        engine,
        f"CREATE ROLE {role} LOGIN",
        f"GRANT SELECT ON visits TO {role}",
        "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
    )
    monkeypatch.setenv("PGUSER", role)
    ledger = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    with pytest.raises(StudyInvalid, match=r"does not say which server it is.*GRANT EXECUTE"):
        run_study(study, ledger=ledger, folder=here)
    assert ledger.accounts() == ()
    made(engine, "GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
    run_study(study, ledger=ledger, folder=here)


def test_the_number_of_rows_is_as_stated(here, tables, database):
    engine, address = database
    study = study_of(tables, here, address("select * from visits"), n=39)
    in_table(engine, here)
    ledger = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    with pytest.raises(StudyInvalid, match=r"holds 40 records, the study has n_validation = 39"):
        run_study(study, ledger=ledger, folder=here)
    assert ledger.accounts() == ()


def test_nothing_in_a_cell_is_an_error(here, database):
    engine, address = database
    made(
        engine,
        "CREATE TABLE odd (n numeric, f real, t text, b boolean, d date, j jsonb, a int[], r bytea, c char(5))",
        f"""INSERT INTO odd VALUES
            (1e400, 'NaN', '{CANARY}', true, '4713-01-01 BC', '{{"a": [1]}}', '{{1,NULL}}', '\\xff00', 'x'),
            (NULL, 'Infinity', '', NULL, 'infinity', 'null', '{{}}', '', NULL),
            (0.5, '0.1', ' 7 ', false, '2025-01-01', '1', NULL, NULL, '1')""",
    )
    table = read_table(
        fetched(parse_place(here, address("select * from odd")), display_name="v"),
        mode=SENSITIVE_FILE,
        display_name="v",
    )
    assert not table.broken.any()
    columns = {name: column.tolist() for name, column in table.columns.items()}
    assert columns["n"] == pytest.approx([float("inf"), float("nan"), 0.5], nan_ok=True)
    assert columns["f"] == pytest.approx([float("nan"), float("inf"), 0.1], nan_ok=True)
    assert columns["b"] == pytest.approx([1.0, float("nan"), 0.0], nan_ok=True)
    assert columns["t"][::2] == [CANARY, 7.0]
    assert columns["d"] == ["4713-01-01 BC", float("inf"), "2025-01-01"]
    assert (columns["c"][0], columns["c"][2]) == ("x", 1.0)


def test_a_text_that_is_no_utf8_costs_its_own_cell(here, postgresql, monkeypatch):
    monkeypatch.setenv("PGUSER", "postgres")
    with sa.create_engine(postgresql.format("postgres"), isolation_level="AUTOCOMMIT").connect() as connection:
        for encoding in ("sql_ascii", "latin1"):
            connection.exec_driver_sql(f"DROP DATABASE IF EXISTS bytes_{encoding}")
            connection.exec_driver_sql(
                f"CREATE DATABASE bytes_{encoding} TEMPLATE template0"
                f" ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
            )
    host = quote(sa.engine.make_url(postgresql.format("x")).query["host"], safe="")
    import psycopg

    for encoding in ("sql_ascii", "latin1"):
        with psycopg.connect(
            postgresql.format(f"bytes_{encoding}").replace("+psycopg", ""), client_encoding="SQL_ASCII"
        ) as connection:
            connection.execute(b"CREATE TABLE v (t text)")
            connection.execute(b"INSERT INTO v VALUES ('gr\xfcn'), ('plain')")
    place = parse_place(here, f"postgresql://{host}/bytes_sql_ascii?query=select t from v")
    column = read_table(fetched(place, display_name="v"), mode=SENSITIVE_FILE, display_name="v").columns["t"]
    assert (column[0] != column[0], column[1]) == (True, "plain")
    with pytest.raises(StudyInvalid, match="does not keep its texts in UTF-8"):
        read_header(
            parse_place(here, f"postgresql://{host}/bytes_latin1?query=select t from v"),
            mode=SENSITIVE_FILE,
            display_name="v",
        )


def test_persons_are_of_the_same_rows(here, database):
    engine, address = database
    rows = f"INSERT INTO who VALUES ({2**60}, 1), (NULL, 2), (7, 3)"
    made(engine, "CREATE TABLE who (id bigint, x int)", rows)
    contents = fetched(parse_place(here, address("select * from who")), display_name="v")
    assert read_people(contents, "id", display_name="v") == (str(2**60), None, "7")


def everything_said(error, caplog, capfd):
    out = capfd.readouterr()
    return "".join([*traceback.format_exception(error), caplog.text, out.out, out.err, repr(error.__context__)])


def test_what_the_server_says_of_a_record_is_sealed(here, tables, database, caplog, capfd):
    """A view whose cast fails on one record: the server quotes it, and nobody hears."""
    caplog.set_level(logging.DEBUG)
    engine, address = database
    study = study_of(tables, here, address("select * from seen"))
    in_table(engine, here)
    made(
        engine,
        "CREATE TABLE kept AS SELECT x, ward, y::text AS y FROM visits",
        f"UPDATE kept SET y = '{CANARY}' WHERE x = (SELECT max(x) FROM kept)",
        "CREATE VIEW seen AS SELECT x, ward, y::int AS y FROM kept",
    )
    ledger = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    with pytest.raises((StudyInvalid, Sealed)) as failed:
        run_study(study, ledger=ledger, folder=here)
    assert CANARY not in everything_said(failed.value, caplog, capfd)
    assert not search(here, {CANARY: forms_of_text(CANARY)})
    with pytest.raises(sa.exc.DataError, match=CANARY), engine.connect() as connection:  # else it shows nothing
        connection.exec_driver_sql("SELECT * FROM seen").fetchall()


def test_what_cannot_be_asked_is_one_message(here, tables, database, caplog, capfd):
    engine, address = database
    study = study_of(tables, here, address("select missing from visits"))
    in_table(engine, here)
    with pytest.raises(StudyInvalid, match="could not be fetched") as failed:
        run_study(study, ledger=PrivacyLedger(f"sqlite:///{here / 'ledger.db'}"), folder=here)
    assert "does not exist" not in everything_said(failed.value, caplog, capfd)


def test_a_server_that_is_not_there_is_the_same_message(here):
    with pytest.raises(StudyInvalid, match="could not be fetched"):
        read_header(
            parse_place(here, "postgresql://127.0.0.1:9/x?query=select a from v"),
            mode=SENSITIVE_FILE,
            display_name="v",
        )


# --- an object store


@pytest.fixture
def signed(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def parquet(frame):
    held = io.BytesIO()
    frame.to_parquet(held)
    return held.getvalue()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_objects_are_read_as_files(here, tables, signed, kind):
    study_of(tables, here, "v.csv")
    frame = pd.read_csv(here / "v.csv")
    content = (here / "v.csv").read_bytes() if kind == "csv" else parquet(frame)
    with object_store({f"clinic/day/v.{kind}": content}) as (server, asked):
        place = parse_place(here, f"s3://clinic/day/v.{kind}?scheme=http&region=x&endpoint_override={server}")
        header = read_header(place, mode=SENSITIVE_FILE, display_name="v")
        assert (header.columns, header.n_records) == (("x", "ward", "y"), 40)
        rows = read_table(fetched(place, display_name="v"), mode=SENSITIVE_FILE, display_name="v").columns
        people = read_people(fetched(place, display_name="v"), "ward", display_name="v")
    file = read_table(here / "v.csv", mode=SENSITIVE_FILE, display_name="v").columns
    assert {name: rows[name].tolist() for name in file} == {name: file[name].tolist() for name in file}
    assert list(people) == frame["ward"].tolist()
    assert all(line.startswith((f"HEAD /clinic/day/v.{kind}", f"GET /clinic/day/v.{kind}")) for line in asked)


@pytest.mark.parametrize("wrong", ["key", "object", "damaged"])
def test_what_a_store_says_is_sealed(here, tables, signed, monkeypatch, wrong, caplog, capfd):
    if wrong == "key":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "NOBODY")
    content = parquet(pd.DataFrame({"x": [CANARY]}))[:-9] + b"PAR1"
    with object_store({"clinic/v.parquet": content}, quoted=CANARY) as (server, _):
        name = "w" if wrong == "object" else "v"
        study = study_of(tables, here, f"s3://clinic/{name}.parquet?scheme=http&endpoint_override={server}")
        says = "is not a readable Parquet file" if wrong == "damaged" else "could not be fetched"
        with pytest.raises(StudyInvalid, match=says) as failed:
            run_study(study, ledger=PrivacyLedger(f"sqlite:///{here / 'ledger.db'}"), folder=here)
    assert CANARY not in everything_said(failed.value, caplog, capfd)


# --- the rest of the house


@pytest.mark.slow
def test_the_command_reads_an_address_and_leaves_no_secret(dpbo, here, tables, database, monkeypatch):
    """Through Prefect, with its logs and databases."""
    engine, address = database
    monkeypatch.setenv("PGPASSWORD", CANARY)
    study_of(tables, here, address("select * from visits"))
    in_table(engine, here)
    made(engine, f"CREATE TABLE marked AS SELECT x, '{CANARY}' AS ward, y FROM visits")
    tables["data"]["validation"] = address("select * from marked")
    (here / "study.toml").write_text(tomli_w.dumps(tables))
    code, out, err = dpbo("tune", "study.toml")
    assert (code, CANARY in out + err) == (0, False)
    assert not search(here, {CANARY: forms_of_text(CANARY)})
    code, out, _ = dpbo("budget")
    assert code == 0


def test_a_server_is_reached_at_an_ipv6_address(monkeypatch):
    """It never was: the brackets that a URL has went to the driver as part of a name."""
    asked = []
    monkeypatch.setattr("psycopg.connect", lambda *_, **how: asked.append(how["host"]))
    with pytest.raises(StudyInvalid, match="could not be fetched"):
        server_marks(
            parse_address("postgresql://[::1]:5433/clinic?query=SELECT a FROM visits"), display_name="the table"
        )
    assert asked == ["::1"]


def test_a_server_on_this_machine_is_one_source_however_it_is_spelt():
    """By whichever a ledger knows it already; another port, database or table, and another machine, are others."""

    def source(server, table="visits"):
        return place_source(parse_address(f"postgresql://{server}/clinic?query=SELECT a FROM {table}"))

    spelt = (
        "localhost", "LOCALHOST", "127.0.0.1", "127.0.0.1:5432", "127.8.9.1", "127.1", "[::1]", "0.0.0.0",
        "[::ffff:127.0.0.1]", "%2Fvar%2Frun%2Fpostgresql", "%2Ftmp", "ip6-localhost",
    )  # fmt: skip
    for one, other in itertools.combinations(map(source, spelt), 2):
        assert same_records(one, other), (one.name, other.name)
    for other in ("localhost:5433", "db.example.org", "127.example.org", "10.0.0.1", "[::2]"):
        assert not same_records(source("localhost"), source(other)), other
    assert not same_records(source("localhost"), source("127.0.0.1", "other"))

    def said(server, system):
        return replace(source(server), marks=frozenset({f"postgresql:{system}:5:{part}" for part in ("9", "v")}))

    for other in ("%2Ftmp", "%2Ftmp:5432"):  # two servers may listen on one port, in folders of their own
        assert not same_records(said("%2Fvar%2Frun", 1), said(other, 2))
        assert same_records(said("%2Fvar%2Frun", 1), said(other, 1))  # one may listen in both
    for server in ("localhost", "%2Fvar%2Frun"):  # and one that was set up anew is where it was
        assert same_records(said("%2Fvar%2Frun", 1), said(server, 2))
