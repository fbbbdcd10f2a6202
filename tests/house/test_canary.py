"""The search for planted secrets sees through whatever holds them.

Runs of all methods, in every way a run can go and with the ledger on either database, are the section `leaks` of
`make audit`, with a leak planted in each place.
"""

import base64
import gzip
import pickle
import tomllib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w
from audit.leaks import FEATURE, LABEL, Scenario, make_world
from canary import Piece, forms_of_number, forms_of_text, packed_ways, search

SECRETS = {"number": forms_of_number(FEATURE), "label": forms_of_text(LABEL)}


PERSON = "Zaunkoenig-7"


@pytest.mark.slow  # the command starts a server of its own
def test_a_study_of_persons_with_its_evaluation_leaves_no_planted_secret(tables, tmp_path):
    """Each person once, in the search and in the report; the number of records is as private as what they hold."""
    world = make_world(tables, tmp_path)
    header, *rows = (world.run.parent / "data" / "validation.csv").read_text().splitlines()
    people = [PERSON if i in (3, 7) else f"p{i % 20}" for i in range(len(rows))]
    lines = [f"who,{header}", *(",".join(pair) for pair in zip(people, rows, strict=True))]
    (world.run.parent / "data" / "people.csv").write_text("\n".join(lines) + "\n")
    tables = tomllib.loads((world.run / "private_grid.toml").read_text())
    tables["study"]["name"] = "persons"
    tables["privacy"] |= {"dataset": "persons", "person": "who"}
    tables["data"] |= {"validation": "../data/people.csv", "n_persons": 21}
    del tables["data"]["n_validation"]
    tables["evaluation"] = {"epsilon": 1.0}
    (world.run / "persons.toml").write_text(tomli_w.dumps(tables))
    of_persons = replace(world, secrets=world.secrets | {"person": forms_of_text(PERSON)})
    streams = of_persons.go(Scenario(), ("persons",))
    assert b"persons/evaluation" in streams["stdout"], streams["stderr"][-2000:]
    assert b"each person in the validation set" in b" ".join(streams["stdout"].split())
    assert of_persons.found(streams) == set()


TEXTS = {
    b"2026-11-23 01:32:20.566473": False,
    b"01:32:10.5664730.566473": True,
    b"score 0.566473": True,
    b"20.566473": True,
    b"0.566473": True,
}


def test_the_seconds_of_a_time_are_no_score():
    assert {text: Piece(text).holds(b"0.566473") for text in TEXTS} == TEXTS


def test_the_search_sees_through_any_two_wrappings(tmp_path):
    """Every way inside every way: a file each."""
    bare = packed_ways(b"x" * 40 + LABEL.encode())
    for inner, packed in bare.items():
        once = packed if inner == "zip" else b"prefix " + packed + b" suffix"
        for outer, twice in packed_ways(once).items():
            (tmp_path / f"{inner} in {outer}").write_bytes(twice)
    assert search(tmp_path, SECRETS) == {(f"{inner} in {outer}", "label") for inner in bare for outer in bare}


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_the_search_sees_floats(tmp_path, order, kind):
    values = np.array([1.5, FEATURE], dtype=order + kind)
    (tmp_path / "a.npy").write_bytes(values.tobytes())
    (tmp_path / "b.pkl").write_bytes(pickle.dumps(values))
    (tmp_path / "c.json").write_bytes(
        b'{"result": "' + base64.b64encode(gzip.compress(pickle.dumps(values))) + b'"}'
    )
    found = search(tmp_path, SECRETS)
    assert found >= {("a.npy", "number"), ("b.pkl", "number")}
    assert kind == "f4" or ("c.json", "number") in found  # four bytes are not looked for in what may be chance
    (tmp_path / "c.json").write_bytes(b'{"result": "' + base64.b64encode(pickle.dumps(values)) + b'"}')
    assert ("c.json", "number") in search(tmp_path, SECRETS)


def test_the_search_sees_tables_and_streams(tmp_path):
    for codec in ("snappy", "gzip", "zstd", "brotli"):
        pq.write_table(pa.table({"a": [1.0, FEATURE]}), tmp_path / f"{codec}.parquet", compression=codec)
    found = search(tmp_path, SECRETS, {"stdout": b"73914.285714"})
    assert found == {(f"{codec}.parquet", "number") for codec in ("snappy", "gzip", "zstd", "brotli")} | {
        ("stdout", "number")
    }
