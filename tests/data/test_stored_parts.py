"""A folder of an object store as the validation set: the sums of a folder of files, and nothing more is told."""

import json
import os
import shutil
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from canary import forms_of_text, search
from object_store import KEY, object_store
from pyarrow import fs

from dpbo.flows.private_flow import workers
from dpbo_core.data import fetched as fetching
from dpbo_core.data import read_header
from dpbo_core.data.addresses import FolderAddress, parse_address, parse_place
from dpbo_core.data.fetched import FOOTER_REQUEST_BYTES, parquet_objects
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.errors import Sealed, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import same_records
from dpbo_core.report.evaluation import evaluate_study
from dpbo_core.study import StudySpec, data_split
from dpbo_core.study.named_sources import named_source
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study, run_study

CANARY = "canary-51c7d0b9e2"
FILES = {"training": "t.parquet", "n_validation": 500, "target": "ill"}


@pytest.fixture(autouse=True)
def signed(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a training file and seven uneven parts in `parts`, some of whose records are broken."""
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(8)

    def frame(n):
        x = rng.normal(size=(n, 3))
        people = rng.integers(0, 90, n).astype(str)
        return pd.DataFrame(x, columns=list("abc")).assign(
            who=people, ill=(x[:, 0] + rng.normal(size=n) > 0).astype(int)
        )

    frame(80).to_parquet(folder / "t.parquet", index=False)
    V = frame(500)
    V.loc[[3, 77, 400], "b"] = [np.nan, np.inf, 1e300]
    (folder / "parts").mkdir()
    for j, (start, stop) in enumerate(pairwise([0, 1, 2, 130, 131, 300, 499, 500])):
        V.iloc[start:stop].to_parquet(folder / "parts" / f"{j:02d}.parquet", index=False)
    return folder


@pytest.fixture
def objects(here, files):
    """A copy of the files, and the parts as bytes in the bucket, with what is no part."""
    shutil.copytree(files, here, dirs_exist_ok=True)
    return {f"clinic/day/{part.name}": part.read_bytes() for part in sorted((here / "parts").iterdir())} | {
        "clinic/day/notes.txt": b"no part",
        "clinic/day/older/00.parquet": b"no part of it either",
        "clinic/days.parquet": b"nor this",
    }


@pytest.fixture
def store(objects):
    with object_store(objects, quoted=CANARY) as (server, asked):
        yield f"s3://clinic/day/?scheme=http&region=x&endpoint_override={server}", asked


@pytest.fixture
def study(tables):
    def made(validation, **data):
        tables["study"]["method"] = data.pop("method", "private_trajectory")
        tables["data"] = {key: value for key, value in (FILES | data).items() if value is not None}
        tables["data"]["validation"] = validation
        tables["data"].setdefault("ignore", ["who"])
        return StudySpec.from_dict(tables)

    return made


def sums(scorer, models):
    return [one.expose() for one in scorer.evaluate_all(models).sums]


def halves(spec, other, folder):
    public = data_split.public_half(spec, folder)
    models = [public.problem.train(index) for index in range(0, len(public.problem.candidates), 5)]
    for one in (spec, other):
        data_split.check_presence(one, folder, public)
    return [data_split.sensitive_half(one, folder, public) for one in (spec, other)], models


def test_objects_add_up_to_what_files_do(here, study, store):
    (files, stored), models = halves(study("parts"), study(store[0]), here)
    assert data_split.is_partitioned(study(store[0]), here)
    assert sums(stored, models) == sums(files, models)
    assert [stored.evaluate(model).expose() for model in models] == sums(files, models)
    assert not [line for line in store[1] if "older" in line or "notes" in line or "days" in line]


def test_persons_add_up_wherever_their_records_lie(here, tables, study, store):
    tables["privacy"] |= {"person": "who", "max_records_per_person": 1}
    counted = {"n_validation": None, "n_persons": 90, "ignore": []}
    (files, stored), models = halves(study("parts", **counted), study(store[0], **counted), here)
    assert sums(stored, models) == sums(files, models)


def test_before_the_charge_the_ends_of_objects_are_read_and_no_record(here, study):
    """Only footers: of a part of a megabyte its last 64 kilobytes."""
    rng = np.random.default_rng(1)
    pd.DataFrame(rng.normal(size=(40_000, 3)), columns=list("abc")).to_parquet(here / "v.parquet")
    content = (here / "v.parquet").read_bytes()
    with object_store({"b/f/v.parquet": content}) as (server, asked):
        place = parse_place(here, f"s3://b/f/v.parquet?scheme=http&region=x&endpoint_override={server}")
        header = read_header(place, mode=SENSITIVE_FILE, display_name="v")
    assert (header.columns, header.n_records) == (("a", "b", "c"), 40_000)
    size = len(content)
    assert [line for line in asked if line.startswith("GET")] == [
        f"GET /b/f/v.parquet bytes={size - FOOTER_REQUEST_BYTES}-{size - 1}"
    ]


@pytest.mark.parametrize(("limit", "gets"), [(None, 7), (0, 21)])
def test_what_was_read_is_kept_while_it_fits_and_an_object_written_again_is_read_again(
    here, study, objects, store, limit, gets
):
    address, asked = store
    (_, stored), models = halves(study("parts"), study(address, memory_limit=limit), here)
    asked.clear()
    scored = [stored.evaluate(models[0]).expose() for _ in range(3)]
    assert len(set(scored)) == 1
    assert len([line for line in asked if line.startswith("GET")]) == gets
    frame = pd.read_parquet(here / "parts" / "04.parquet")
    frame.assign(ill=1 - frame["ill"]).to_parquet(here / "parts" / "04.parquet", index=False, compression=None)
    objects["clinic/day/04.parquet"] = (here / "parts" / "04.parquet").read_bytes()
    with object_store(objects) as (server, _):
        again = study(f"s3://clinic/day/?scheme=http&region=x&endpoint_override={server}")
        (files, fresh), _ = halves(study("parts"), again, here)
        assert fresh.evaluate(models[0]).expose() == files.evaluate(models[0]).expose() != scored[0]


def test_a_study_and_its_report_run_and_a_replay_needs_no_store(here, tables, study, objects):
    tables["evaluation"] = {"epsilon": 1.0}
    ledger = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    with object_store(objects, quoted=CANARY) as (server, _):
        spec = study(f"s3://clinic/day/?scheme=http&region=x&endpoint_override={server}", method="private_grid")
        release = run_study(spec, ledger=ledger, folder=here).release
        report = evaluate_study(spec, ledger=ledger, folder=here).release
    assert run_study(spec, ledger=ledger, folder=here).replayed
    assert CANARY not in json.dumps([release.to_json(), report.to_json()])
    assert not search(here, {CANARY: forms_of_text(CANARY)})


@pytest.mark.parametrize("what", ["gone", "shorter", "other bytes", "no right any more"])
def test_whatever_becomes_of_a_part_after_the_charge_is_one_message(
    here, study, objects, what, monkeypatch, caplog, capfd
):
    ledger = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    with object_store(objects, quoted=CANARY) as (server, _):
        spec = study(f"s3://clinic/day/?scheme=http&region=x&endpoint_override={server}")
        run = open_study(Run.of(spec, QueryContext(ledger, folder=here)))
        if what == "gone":
            del objects["clinic/day/03.parquet"]
        elif what == "no right any more":
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", "NOBODY")
        else:
            objects["clinic/day/04.parquet"] = (
                b"PAR1" if what == "other bytes" else objects["clinic/day/03.parquet"]
            )
        with pytest.raises((StudyInvalid, Sealed)) as failed:
            run.step()
    out = capfd.readouterr()
    said = "".join([str(failed.value), repr(failed.value.__context__), caplog.text, out.out, out.err])
    assert CANARY not in said
    assert "04" not in said


def test_a_store_that_says_no_and_an_empty_folder_are_refused_before_the_charge(
    here, study, store, objects, monkeypatch
):
    ledger = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    empty = store[0].replace("/day/", "/none/")
    with pytest.raises(StudyInvalid, match="it holds no object named"):
        run_study(study(empty), ledger=ledger, folder=here)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "NOBODY")
    with pytest.raises(StudyInvalid, match="could not be fetched") as failed:
        run_study(study(store[0]), ledger=ledger, folder=here)
    assert CANARY not in repr(failed.value)
    assert not ledger.accounts()


@pytest.mark.parametrize(("one", "other", "same"), [
    ("s3://c/day/", "s3://c/day/00.parquet", True),
    ("s3://c/{date}/", "s3://c/2026-11-22/00.parquet", True),
    ("s3://c/day/", "s3://c/day/older/00.parquet", False),
    ("s3://c/day/", "s3://c/days.parquet", False),
    ("s3://c/day/", "s3://d/day/00.parquet", False),
    ("s3://c/day/", "s3://c/day/?endpoint_override=minio:9000", False),
    ("s3://c/day/", "s3://c/day/?endpoint_override=", True),
    ("s3://c/day/", "S3://c//day/?endpoint_override=s3.eu-central-1.amazonaws.com", True),
    ("s3://c/day/", "s3://c/day/?endpoint_override=https://s3.amazonaws.com:443/", True),
    ("s3://c/{date}/?endpoint_override=minio:9",
     "s3://c/2026-11-22/00.parquet?endpoint_override=http://minio:9/", True),
    ("s3://c/day/?endpoint_override=minio:9", "s3://c/day/?endpoint_override=http://other:9/", False),
])  # fmt: skip
def test_a_folder_and_what_lies_in_it_are_the_same_records(one, other, same):
    assert isinstance(parse_address(one), FolderAddress)
    assert same_records(named_source(one), named_source(other)) is same
    assert same_records(named_source(other), named_source(one)) is same


@pytest.mark.parametrize("key", ["day//", "./day/", "x/../day/00.parquet"])
def test_an_address_that_another_spelling_of_reads_the_same_is_refused(key):
    """Else the owner's policy for the one would not hold for the other."""
    with pytest.raises(StudyInvalid, match="without a name, or by"):
        parse_address(f"s3://c/{key}")


def test_what_a_store_lists_beside_the_folder_or_twice_is_no_part(store, monkeypatch):
    folder = parse_address(store[0])
    listed = [
        "day/01.parquet",
        "day/01.parquet",
        "../x.parquet",
        "other/x.parquet",
        "day/../x.parquet",
        "day/s/x.parquet",
    ]
    found = [fs.FileInfo(f"clinic/{key}", fs.FileType.File) for key in listed]
    monkeypatch.setattr(fetching, "_store", lambda _: SimpleNamespace(get_file_info=lambda _: found))
    assert [part.key for part in parquet_objects(folder)] == ["day/01.parquet"]


@pytest.mark.slow
def test_workers_read_objects_themselves(here, study, store):
    spec = study(store[0])
    (files, _), models = halves(study("parts"), spec, here)
    asked = spec.replace(data=spec.data.replace(workers=2))
    with workers(asked, str(here)) as pool:
        assert os.environ["AWS_ACCESS_KEY_ID"] == KEY  # they take it from whoever starts them
        public = data_split.public_half(spec, here)
        on_workers = data_split.sensitive_half(spec, here, public, pool)
        assert [on_workers.evaluate(model).expose() for model in models] == sums(files, models)
